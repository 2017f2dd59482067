//! `/api/v1/ops/gateway-reports` and `/api/v1/ops/refunds`: operators read and decide.

use super::bodies::{NO_OBJECT, NO_TEXT, each};
use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_OPERATOR, Market, OPERATOR, REFUND, REPORT};

const REPORTS: &str = "/api/v1/ops/gateway-reports";
const REFUNDS: &str = "/api/v1/ops/refunds";
const REASON: &str = r#"{"reason":"a test"}"#;

pub(crate) fn cases(_: &Market) -> Vec<Case> {
    let decisions = [
        ("close of a report", format!("{REPORTS}/{REPORT}/close")),
        ("retry of a refund", format!("{REFUNDS}/{REFUND}/retry")),
        ("settlement of a refund", format!("{REFUNDS}/{REFUND}/settle")),
    ];
    let mut cases: Vec<Case> = decisions.iter().flat_map(|(what, path)| decision(what, path)).collect();
    cases.extend(reads());
    cases.extend([
        post("close of a report that needs no decision", &decisions[0].1)
            .by(OPERATOR)
            .json(REASON)
            .unchanged(200),
        post("close of an unknown report", &format!("{REPORTS}/9007199254740991/close"))
            .by(OPERATOR)
            .json(REASON)
            .refused(404, "A0404", &[]),
        // The refund failed after it had succeeded.
        post("settlement of a failed refund", &decisions[2].1).by(OPERATOR).json(REASON).done(200),
        post("settlement of a settled refund", &decisions[2].1).by(OPERATOR).json(REASON).refused(
            409,
            "A0409",
            &[],
        ),
        post("retry of a settled refund", &decisions[1].1).by(OPERATOR).json(REASON).refused(
            409,
            "A0409",
            &[],
        ),
    ]);
    cases
}

/// Invalid requests of a decision, which needs a reason.
fn decision(what: &str, path: &str) -> Vec<Case> {
    let request = |name: &str, body: &str| post(&format!("{what}, {name}"), path).by(OPERATOR).json(body);
    let reason = |name: &str, value: &str| request(name, &format!(r#"{{"reason":{value}}}"#));
    let long = format!("\"{}\"", "x".repeat(501));
    let no_reason = [
        ("empty", r#""""#),
        ("blank", r#""  ""#),
        ("with a line break", r#""a\nb""#),
        ("501 characters", &long),
    ];
    let mut cases = each(&NO_TEXT, "reason", reason);
    cases.extend(each(&no_reason, "reason", reason));
    cases.extend(NO_OBJECT.iter().map(|(name, body)| request(name, body).invalid(&["body"])));
    cases.extend([
        request("without a reason", "{}").invalid(&["reason"]),
        request("an unknown field", r#"{"reason":"a","force":true}"#).invalid(&["force"]),
        request("a duplicate field", r#"{"reason":"a","reason":"b"}"#).invalid(&["reason"]),
        request("without a token", REASON).without_token().refused(401, "A0301", &[]),
        request("by a user", REASON).by(BUYER).refused(403, "A0303", &[]),
        request("by another tenant's operator", REASON).by(FOREIGN_OPERATOR).refused(404, "A0404", &[]),
    ]);
    cases
}

fn reads() -> Vec<Case> {
    let read = |name: &str, path: &str| get(&format!("{name}: {path}"), path).by(OPERATOR);
    let mut cases = Vec::new();
    for path in [REPORTS, REFUNDS] {
        cases.extend([
            read("list", path).unchanged(200),
            read("list without a token", path).without_token().refused(401, "A0301", &[]),
            read("list by a user", path).by(BUYER).refused(403, "A0303", &[]),
            read("list by another tenant's operator", path).by(FOREIGN_OPERATOR).unchanged(200),
        ]);
        for (query, field) in [
            ("state=open", "state"),
            ("state=lost", "state"),
            ("limit=0", "limit"),
            ("cursor=x", "cursor"),
            ("a=1", "a"),
        ] {
            cases.push(read("list", &format!("{path}?{query}")).invalid(&[field]));
        }
    }
    let one = format!("{REFUNDS}/{REFUND}");
    cases.extend([
        read(
            "reports of a time",
            &format!("{REPORTS}?from=2026-01-01T00:00:00Z&to=2999-01-01T00:00:00Z&state=OPEN"),
        )
        .unchanged(200),
        read("reports of no time", &format!("{REPORTS}?from=today&to=")).invalid(&["from"]),
        read("refunds with a time", &format!("{REFUNDS}?from=2026-01-01T00:00:00Z")).invalid(&["from"]),
        read("refund", &one).unchanged(200),
        read("refund with a parameter", &format!("{one}?a=1")).invalid(&["a"]),
        read("refund of another tenant", &one).by(FOREIGN_OPERATOR).refused(404, "A0404", &[]),
        read("refund without a token", &one).without_token().refused(401, "A0301", &[]),
        read("unknown refund", &format!("{REFUNDS}/9007199254740991")).refused(404, "A0404", &[]),
        read("refund without an id", &format!("{REFUNDS}/0")).refused(404, "A0404", &[]),
    ]);
    cases
}
