//! `/api/v1/orders/{id}/refunds` and `/api/v1/refunds/callback`.

use super::bodies::{NO_ID, NO_OBJECT, NO_TEXT, each};
use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_BUYER, FOREIGN_OPERATOR, Market, OPERATOR, OTHER_USER, REFUND, SELLER};

const CALLBACK: &str = "/api/v1/refunds/callback";
const REASON: &str = r#"{"reason":"a test"}"#;

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [requests(market), reads(market), callbacks(), signatures(market), settled(market)].concat()
}

fn requests(market: &Market) -> Vec<Case> {
    let request = |name: &str, order: i64, body: &str| {
        post(&format!("refund, {name}"), &format!("/api/v1/orders/{order}/refunds")).by(BUYER).json(body)
    };
    let as_operator = |name: &str, order: i64| {
        post(&format!("refund, {name}"), &format!("/api/v1/ops/orders/{order}/refunds")).json(REASON)
    };
    let Market { pending, paid, refunding, shipped, cancelled, .. } = *market;
    let reason = |name: &str, value: &str| request(name, paid, &format!(r#"{{"reason":{value}}}"#));
    let long = format!("\"{}\"", "字".repeat(501));
    let texts = [
        ("empty", r#""""#),
        ("blank", r#""  ""#),
        ("with a line break", r#""a\nb""#),
        ("of 501 characters", &long),
    ];
    let mut cases = each(&NO_TEXT, "reason", reason);
    cases.extend(each(&texts, "reason", reason));
    cases.extend(NO_OBJECT.iter().map(|(name, body)| request(name, paid, body).invalid(&["body"])));
    let conflict = |case: Case| case.refused(409, "A0409", &[]);
    let not_found = |case: Case| case.refused(404, "A0404", &[]);
    cases.extend([
        request("without a reason", paid, "{}").invalid(&["reason"]),
        request("an amount chosen by the buyer", paid, r#"{"reason":"a","amount":1.00}"#)
            .invalid(&["amount"]),
        request("a duplicate field", paid, r#"{"reason":"a","reason":"b"}"#).invalid(&["reason"]),
        request("no body", paid, "").invalid(&["body"]),
        request("without a token", paid, REASON).without_token().refused(401, "A0301", &[]),
        request("off the shelf, by the buyer", paid, r#"{"reason":"a","offShelf":true}"#).refused(
            403,
            "A0303",
            &[],
        ),
        request("off the shelf, as a number", paid, r#"{"reason":"a","offShelf":1}"#)
            .by(SELLER)
            .invalid(&["offShelf"]),
        not_found(request("by another user", paid, REASON).by(OTHER_USER)),
        not_found(request("by the same user id in another tenant", paid, REASON).by(FOREIGN_BUYER)),
        not_found(request("by the operator, on the parties' route", paid, REASON).by(OPERATOR)),
        not_found(as_operator("by another tenant's operator", paid).by(FOREIGN_OPERATOR)),
        as_operator("by a user, on the operators' route", paid).by(BUYER).refused(403, "A0303", &[]),
        not_found(request("no such order", 9_007_199_254_740_991, REASON)),
        conflict(request("an unpaid order", pending, REASON)),
        conflict(request("a cancelled order", cancelled, REASON)),
        conflict(request("a shipped order", shipped, REASON)),
        conflict(as_operator("a shipped order, by the operator", shipped).by(OPERATOR)),
        conflict(request("a shipped order, by the seller", shipped, REASON).by(SELLER)),
        request("requested again", refunding, REASON).unchanged(201),
        request("requested again by the seller", refunding, REASON).by(SELLER).unchanged(201),
        as_operator("requested again by the operator", refunding).by(OPERATOR).unchanged(201),
        conflict(
            post("shipping of an order that is being refunded", &format!("/api/v1/orders/{refunding}/ship"))
                .by(SELLER)
                .json(r#"{"carrier":"SF","trackingNo":"T1"}"#),
        ),
    ]);
    cases
}

fn reads(market: &Market) -> Vec<Case> {
    let path = format!("/api/v1/orders/{}/refunds", market.refunding);
    let operators = format!("/api/v1/ops/orders/{}/refunds", market.refunding);
    let read = |name: &str| get(&format!("refunds, {name}"), &path);
    vec![
        read("by the buyer").by(BUYER).unchanged(200),
        read("by the seller").by(SELLER).unchanged(200),
        get("refunds, by the operator", &operators).by(OPERATOR).unchanged(200),
        read("by the operator, on the parties' route").by(OPERATOR).refused(404, "A0404", &[]),
        read("without a token").refused(401, "A0301", &[]),
        read("by another user").by(OTHER_USER).refused(404, "A0404", &[]),
        read("by the same user id in another tenant").by(FOREIGN_BUYER).refused(404, "A0404", &[]),
        get("refunds, by another tenant's operator", &operators).by(FOREIGN_OPERATOR).refused(
            404,
            "A0404",
            &[],
        ),
        get("refunds with a parameter", &format!("{path}?limit=1")).by(BUYER).invalid(&["limit"]),
        get("refunds of an order that does not exist", "/api/v1/orders/0/refunds").by(BUYER).refused(
            404,
            "A0404",
            &[],
        ),
    ]
}

fn report(refund: i64, result: &str) -> String {
    format!(r#"{{"refundId":{refund},"result":"{result}"}}"#)
}

fn callback(name: &str, body: &str) -> Case {
    post(&format!("refund callback, {name}"), CALLBACK).json(body)
}

fn callbacks() -> Vec<Case> {
    let signed = |name: &str, body: &str| callback(name, body).signed(0);
    let id = |name: &str, value: &str| signed(name, &format!(r#"{{"refundId":{value},"result":"SUCCESS"}}"#));
    let result =
        |name: &str, value: &str| signed(name, &format!(r#"{{"refundId":{REFUND},"result":{value}}}"#));
    let no_result =
        [("in lower case", r#""success""#), ("another word", r#""PROCESSING""#), ("empty", r#""""#)];
    let transaction = |name: &str, value: &str| {
        signed(name, &format!(r#"{{"refundId":{REFUND},"result":"SUCCESS","gatewayTxnId":{value}}}"#))
    };
    // Null is the same as an absent field.
    let mut cases = each(&NO_ID[1..], "refundId", id);
    cases.extend(each(&NO_TEXT[1..], "gatewayTxnId", transaction));
    cases.extend(each(&NO_TEXT, "result", result));
    cases.extend(each(&no_result, "result", result));
    let complete = report(REFUND, "SUCCESS");
    let open = complete.trim_end_matches('}');
    cases.extend([
        signed("no fields", "{}").invalid(&["reference", "refundId", "result"]),
        id("neither reference nor id", "null").invalid(&["reference", "refundId"]),
        signed("an unknown field and an invalid one", &format!(r#"{open},"amount":"","reference":""}}"#))
            .invalid(&["reference"]),
        signed("a duplicate field", &format!(r#"{open},"result":"FAILED"}}"#)).invalid(&["result"]),
        signed("not an object", "[]").invalid(&["body"]),
        signed("no body", "").invalid(&["body"]),
        signed("no such refund", &report(9_007_199_254_740_991, "SUCCESS")).refused(404, "A0404", &[]),
        post("refund callback as text/plain", CALLBACK)
            .body(complete.as_str())
            .header("Content-Type", "text/plain")
            .signed(0)
            .refused(415, "A0400", &[]),
    ]);
    cases.into_iter().map(Case::recorded).collect()
}

fn signatures(market: &Market) -> Vec<Case> {
    let body = report(REFUND, "SUCCESS");
    let plain = |name: &str| callback(name, &body);
    let [(_, id), (_, time), (_, of_another_body)] = market.api.signed("msg-1", 0, b"{}");
    let cases = [
        plain("not signed"),
        plain("a token instead of a signature").by(BUYER),
        plain("an operator's token instead of a signature").by(OPERATOR),
        plain("the signature of another body")
            .header("webhook-id", &id)
            .header("webhook-timestamp", &time)
            .header("webhook-signature", &of_another_body),
        plain("six minutes old").signed(-360),
        plain("six minutes ahead").signed(360),
        callback("unsigned and not JSON: the signature is checked first", "{"),
    ];
    cases.into_iter().map(|case| case.refused(401, "A0301", &[])).collect()
}

/// Callbacks that report the result of the refund, and a refund request after the refund succeeded.
fn settled(market: &Market) -> Vec<Case> {
    let signed = |name: &str, result: &str| callback(name, &report(REFUND, result)).signed(0);
    let again = format!("/api/v1/orders/{}/refunds", market.refunding);
    vec![
        signed("refund succeeded", "SUCCESS").done(200),
        signed("the same result again", "SUCCESS").unchanged(200),
        post("refund of a refunded order", &again).by(BUYER).json(REASON).refused(409, "A0409", &[]),
        signed("a failure after the refund succeeded", "FAILED").done(200),
    ]
}
