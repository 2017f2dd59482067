//! Grants by an operator: money, points, coupons.

use super::bodies::{NO_ID, NO_MONEY, NO_OBJECT, NO_TEXT, each};
use super::case::{Case, post};
use super::market::{BUYER, FOREIGN_OPERATOR, Market, OPERATOR};

const DEPOSITS: &str = "/api/v1/ops/wallets/2/deposits";
const GRANTS: &str = "/api/v1/ops/points/2/grants";
const COUPONS: &str = "/api/v1/ops/coupons";
const COUPON: &str = r#"{"userId":2,"discount":5.00,"expiresAt":"2999-01-01T00:00:00Z"}"#;

pub(crate) fn cases(_: &Market) -> Vec<Case> {
    [amounts(), coupons(), shapes(), unauthorized(), users(), keys()].concat()
}

fn post_grant(name: &str, path: &str, body: &str) -> Case {
    let what = path.rsplit('/').next().unwrap();
    post(&format!("{what}, {name}"), path).by(OPERATOR).json(body)
}

fn amounts() -> Vec<Case> {
    let deposit = |name: &str, value: &str| post_grant(name, DEPOSITS, &format!(r#"{{"amount":{value}}}"#));
    let grant = |name: &str, value: &str| post_grant(name, GRANTS, &format!(r#"{{"points":{value}}}"#));
    let no_amount = [
        ("zero", "0"),
        ("zero with decimals", "0.00"),
        ("a tenth of a cent", "0.001"),
        ("a cent too much", "10000000.00"),
    ];
    let no_points = [
        ("null", "null"),
        ("text", r#""1""#),
        ("a boolean", "true"),
        ("a list", "[1]"),
        ("zero", "0"),
        ("negative", "-1"),
        ("a fraction", "1.5"),
        ("an exponent", "1e2"),
        ("one too many", "1000000001"),
        ("2^64 and more", "18446744073709551617"),
    ];
    let mut cases = each(&NO_MONEY, "amount", deposit);
    cases.extend(each(&no_amount, "amount", deposit));
    cases.extend(each(&no_points, "points", grant));
    cases
}

fn coupons() -> Vec<Case> {
    let with = |name: &str, user: &str, discount: &str, rest: &str| {
        post_grant(name, COUPONS, &format!(r#"{{"userId":{user},"discount":{discount},{rest}}}"#))
    };
    let expiry = r#""expiresAt":"2999-01-01T00:00:00Z""#;
    let user = |name: &str, value: &str| with(name, value, "5", expiry);
    let discount = |name: &str, value: &str| with(name, "2", value, expiry);
    let least = |name: &str, value: &str| with(name, "2", "5", &format!(r#"{expiry},"minSpend":{value}"#));
    let expires = |name: &str, value: &str| with(name, "2", "5", &format!(r#""expiresAt":{value}"#));
    let no_discount = [("zero", "0"), ("a cent too much", "10000000.00")];
    let no_time = [
        ("empty", r#""""#),
        ("a date", r#""2999-01-01""#),
        ("without a zone", r#""2999-01-01T00:00:00""#),
        ("no such day", r#""2999-02-30T00:00:00Z""#),
        ("in the past", r#""2026-01-01T00:00:00Z""#),
        ("before the year 0", r#""-0001-01-01T00:00:00Z""#),
        ("in the year 10000", r#""9999-12-31T23:59:59-23:59""#),
    ];
    let mut cases = each(&NO_ID, "userId", user);
    cases.extend(each(&NO_MONEY, "discount", discount));
    cases.extend(each(&no_discount, "discount", discount));
    // Without `minSpend` a coupon applies to any price.
    cases.extend(each(&NO_MONEY[1..], "minSpend", least));
    cases.push(least("minSpend: a cent too much", "10000000.00").invalid(&["minSpend"]));
    cases.extend(each(&NO_TEXT, "expiresAt", expires));
    cases.extend(each(&no_time, "expiresAt", expires));
    cases
}

fn shapes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (path, body, fields) in [
        (DEPOSITS, r#"{"amount":1"#, &["amount"][..]),
        (GRANTS, r#"{"points":1"#, &["points"]),
        (
            COUPONS,
            r#"{"userId":2,"discount":1,"expiresAt":"2999-01-01T00:00:00Z""#,
            &["userId", "discount", "expiresAt"],
        ),
    ] {
        cases.extend(NO_OBJECT.iter().map(|(name, body)| post_grant(name, path, body).invalid(&["body"])));
        let first = fields.first().unwrap();
        cases.extend([
            post_grant("no body", path, "").invalid(&["body"]),
            post_grant("no fields", path, "{}").invalid(fields),
            post_grant("an unknown field", path, &format!(r#"{body},"why":"a test"}}"#)).invalid(&["why"]),
            post_grant("an empty reason", path, &format!(r#"{body},"reason":""}}"#)).invalid(&["reason"]),
            post_grant("a duplicate field", path, &format!(r#"{body},"{first}":1}}"#)).invalid(&[first]),
            post_grant("another tenant", path, &format!(r#"{body},"tenantId":2}}"#)).invalid(&["tenantId"]),
        ]);
    }
    cases
}

fn unauthorized() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in [DEPOSITS, GRANTS, COUPONS] {
        cases.push(post_grant("without a token", path, "{").without_token().refused(401, "A0301", &[]));
        cases.push(post_grant("by a user, to themselves", path, "{").by(BUYER).refused(403, "A0303", &[]));
    }
    cases
}

fn users() -> Vec<Case> {
    let mut cases = Vec::new();
    for user in ["0", "-1", "02", "2.0", "abc", "9007199254740992", "%20"] {
        for (path, body) in [
            (format!("/api/v1/ops/wallets/{user}/deposits"), r#"{"amount":1}"#),
            (format!("/api/v1/ops/points/{user}/grants"), r#"{"points":1}"#),
        ] {
            cases.push(post_grant(&format!("to user {user}"), &path, body).refused(404, "A0404", &[]));
        }
    }
    cases
}

/// A repeated grant under the same key is executed once; a different grant under that key is rejected.
fn keys() -> Vec<Case> {
    let mut cases = Vec::new();
    let longest = "k".repeat(255);
    for (path, body, other) in [
        (DEPOSITS, r#"{"amount":9999999.99}"#, r#"{"amount":0.01}"#),
        (GRANTS, r#"{"points":1000000000}"#, r#"{"points":1}"#),
        (COUPONS, COUPON, r#"{"userId":2,"discount":6.00,"expiresAt":"2999-01-01T00:00:00Z"}"#),
    ] {
        let keyed =
            |name: &str, body: &str| post_grant(name, path, body).header("X-Idempotency-Key", &longest);
        cases.extend([
            post_grant("a key with a space", path, body)
                .header("X-Idempotency-Key", "a b")
                .invalid(&["X-Idempotency-Key"]),
            keyed("under a key", body).done(201),
            keyed("under the same key", body).unchanged(201),
            keyed("another body under the same key", other).refused(422, "A0422", &[]),
            keyed("under the same key in another tenant", body).by(FOREIGN_OPERATOR).done(201),
            post_grant("without a key", path, other).done(201),
        ]);
    }
    cases
}
