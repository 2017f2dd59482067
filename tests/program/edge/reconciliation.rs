//! `/api/v1/ops/reconciliation`: GET reports findings, POST repairs them.

use super::bodies::{NO_ID, NO_OBJECT, NO_TEXT, each};
use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_OPERATOR, Market, OPERATOR};

const REPORT: &str = "/api/v1/ops/reconciliation";
const REPAIR: &str = "/api/v1/ops/reconciliation/repair";
const FINDINGS: &str = "/api/v1/ops/reconciliation/findings";
const REASON: &str = r#"{"reason":"a test"}"#;

pub(crate) fn cases(_: &Market) -> Vec<Case> {
    let repair = |name: &str, body: &str| post(&format!("repair, {name}"), REPAIR).by(OPERATOR).json(body);
    let field = |field: &'static str| {
        move |name: &str, value: &str| repair(name, &format!(r#"{{"{field}":{value}}}"#))
    };
    // Null is omitted, because it is the same as an absent field.
    let mut cases = each(&NO_TEXT[1..], "from", field("from"));
    cases.extend(each(&NO_TEXT[1..], "to", field("to")));
    cases.extend(each(&NO_ID[1..], "tenantId", field("tenantId")));
    // An empty body is valid and repairs the default window, so it is not in this list.
    cases.extend(NO_OBJECT.iter().map(|(name, body)| repair(name, body).invalid(&["body"])));
    cases.extend([
        repair(
            "a window that ends before it begins",
            r#"{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}"#,
        )
        .invalid(&["from"]),
        repair(
            "a window of 31 days and a second",
            r#"{"from":"2026-01-01T00:00:00Z","to":"2026-02-01T00:00:01Z"}"#,
        )
        .invalid(&["from"]),
        repair("a window in the future", r#"{"from":"2999-01-01T00:00:00Z"}"#).invalid(&["from"]),
        repair("an unknown field", r#"{"repair":true}"#).invalid(&["repair"]),
        repair("a duplicate field", r#"{"tenantId":1,"tenantId":1}"#).invalid(&["tenantId"]),
        repair("another tenant", r#"{"tenantId":2}"#).refused(404, "A0404", &[]),
        repair("without a token", "{").without_token().refused(401, "A0301", &[]),
        repair("by a user", "{").by(BUYER).refused(403, "A0303", &[]),
        repair("without findings", "{}").unchanged(200),
        post("repair without a body", REPAIR).by(OPERATOR).unchanged(200),
        post("repair by another tenant's operator", REPAIR).by(FOREIGN_OPERATOR).unchanged(200),
        get("reconciliation", REPORT).by(OPERATOR).unchanged(200),
        get("findings", FINDINGS).by(OPERATOR).unchanged(200),
        get("findings of an unknown state", &format!("{FINDINGS}?state=open"))
            .by(OPERATOR)
            .invalid(&["state"]),
        get("findings of another tenant", &format!("{FINDINGS}?tenantId=2")).by(OPERATOR).refused(
            404,
            "A0404",
            &[],
        ),
        acknowledge("an unknown finding", REASON).by(OPERATOR).refused(404, "A0404", &[]),
        acknowledge("without a reason", "{}").by(OPERATOR).invalid(&["reason"]),
        acknowledge("without a token", REASON).without_token().refused(401, "A0301", &[]),
        acknowledge("by a user", REASON).by(BUYER).refused(403, "A0303", &[]),
        get("reconciliation, repair is false", &format!("{REPORT}?repair=false")).by(OPERATOR).unchanged(200),
        get(
            "reconciliation of a month",
            &format!("{REPORT}?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z"),
        )
        .by(OPERATOR)
        .unchanged(200),
    ]);
    cases
}

fn acknowledge(name: &str, body: &str) -> Case {
    post(&format!("acknowledge, {name}"), &format!("{FINDINGS}/9007199254740991/acknowledge")).json(body)
}
