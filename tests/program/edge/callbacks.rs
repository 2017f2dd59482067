//! `POST /api/v1/payments/callback`: accepted only with a valid and recent signature. Every signed request is recorded.

use handover_tests::client::Caller;

use super::bodies::{NO_ID, NO_MONEY, NO_TEXT, each};
use super::case::{Case, post};
use super::market::{BUYER, Market};

const CALLBACK: &str = "/api/v1/payments/callback";

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [fields(market), signatures(market), contradictions(market)].concat()
}

fn report(payment: i64, transaction: &str, result: &str, amount: &str) -> String {
    format!(
        r#"{{"paymentId":{payment},"gatewayTxnId":"{transaction}","result":"{result}","amount":{amount}}}"#
    )
}

fn callback(name: &str, body: &str) -> Case {
    post(&format!("callback, {name}"), CALLBACK).json(body)
}

fn fields(market: &Market) -> Vec<Case> {
    let payment = market.payment;
    let signed = |name: &str, body: &str| callback(name, body).signed(0);
    let id = |name: &str, value: &str| {
        signed(
            name,
            &format!(r#"{{"paymentId":{value},"gatewayTxnId":"t","result":"SUCCESS","amount":88.50}}"#),
        )
    };
    let transaction = |name: &str, value: &str| {
        let rest = r#""result":"SUCCESS","amount":88.50"#;
        signed(name, &format!(r#"{{"paymentId":{payment},"gatewayTxnId":{value},{rest}}}"#))
    };
    let result = |name: &str, value: &str| {
        let rest = r#""gatewayTxnId":"t","amount":88.50"#;
        signed(name, &format!(r#"{{"paymentId":{payment},"result":{value},{rest}}}"#))
    };
    let amount = |name: &str, value: &str| signed(name, &report(payment, "t", "SUCCESS", value));
    let long = format!("\"{}\"", "x".repeat(65));
    let no_transaction =
        [("empty", r#""""#), ("with a space", r#""a b""#), ("not ASCII", r#""号""#), ("too long", &long)];
    let no_result = [("in lower case", r#""success""#), ("another word", r#""PENDING""#), ("empty", r#""""#)];
    let reference = |name: &str, value: &str| {
        let rest = r#""gatewayTxnId":"t","result":"SUCCESS","amount":88.50"#;
        signed(name, &format!(r#"{{"paymentId":{payment},"reference":{value},{rest}}}"#))
    };
    let no_reference = [
        ("empty", r#""""#),
        ("another text", r#""payment 1""#),
        ("without hyphens", r#""0192f0c1000070008000000000000001""#),
        ("in braces", r#""{0192f0c1-0000-7000-8000-000000000001}""#),
    ];
    // Null is the same as an absent field.
    let mut cases = each(&NO_ID[1..], "paymentId", id);
    cases.extend(each(&NO_TEXT[1..], "reference", reference));
    cases.extend(each(&no_reference, "reference", reference));
    cases.extend(each(&NO_TEXT, "gatewayTxnId", transaction));
    cases.extend(each(&no_transaction, "gatewayTxnId", transaction));
    cases.extend(each(&NO_TEXT, "result", result));
    cases.extend(each(&no_result, "result", result));
    cases.extend(each(&NO_MONEY, "amount", amount));
    let complete = report(payment, "t", "SUCCESS", "88.50");
    let open = complete.trim_end_matches('}');
    let all = ["reference", "paymentId", "gatewayTxnId", "result", "amount"];
    cases.extend([
        signed("no fields", "{}").invalid(&all),
        signed("an unknown field and an invalid one", &format!(r#"{open},"currency":"USD","reference":1}}"#))
            .invalid(&["reference"]),
        id("neither reference nor id", "null").invalid(&["reference", "paymentId"]),
        signed("a duplicate field", &format!(r#"{open},"amount":88.50}}"#)).invalid(&["amount"]),
        signed("not an object", "[]").invalid(&["body"]),
        signed("followed by other text", &format!("{complete}x")).invalid(&["body"]),
        callback("no body", "").signed(0).invalid(&["body"]),
        post("callback as text/plain", CALLBACK)
            .body(complete.as_str())
            .header("Content-Type", "text/plain")
            .signed(0)
            .refused(415, "A0400", &[]),
        post("callback with a parameter", &format!("{CALLBACK}?a=1")).json("{ }").signed(0).invalid(&["a"]),
    ]);
    cases.into_iter().map(Case::recorded).collect()
}

fn signatures(market: &Market) -> Vec<Case> {
    let body = report(market.payment, "t", "SUCCESS", "88.50");
    let refused = |case: Case| case.refused(401, "A0301", &[]);
    let plain = |name: &str| callback(name, &body);
    let with_headers = |name: &str, id: Option<&str>, time: Option<String>, signature: Option<String>| {
        let mut case = plain(name);
        for (header, value) in [
            ("webhook-id", id.map(str::to_owned)),
            ("webhook-timestamp", time),
            ("webhook-signature", signature),
        ] {
            if let Some(value) = value {
                case = case.header(header, &value);
            }
        }
        refused(case)
    };
    let [(_, id), (_, time), (_, valid_signature)] = market.api.signed("msg-1", 0, body.as_bytes());
    let [_, _, (_, of_another_body)] = market.api.signed("msg-1", 0, b"{}");
    let now = || Some(time.clone());
    let signature = || Some(valid_signature.clone());
    vec![
        refused(plain("not signed")),
        refused(plain("a token instead of a signature").by(BUYER)),
        refused(plain("an operator's token instead of a signature").by(Caller::of_tenant(1, 9).operator())),
        with_headers("no message id", None, now(), signature()),
        with_headers("no timestamp", Some(&id), None, signature()),
        with_headers("no signature", Some(&id), now(), None),
        with_headers("an empty signature", Some(&id), now(), Some("v1,".to_owned())),
        with_headers(
            "a signature without its version",
            Some(&id),
            now(),
            Some(valid_signature.replace("v1,", "")),
        ),
        with_headers(
            "a signature of another version",
            Some(&id),
            now(),
            Some(valid_signature.replace("v1,", "v2,")),
        ),
        with_headers(
            "a cut signature",
            Some(&id),
            now(),
            Some(valid_signature[..valid_signature.len() - 4].to_owned()),
        ),
        with_headers("the signature of another body", Some(&id), now(), Some(of_another_body)),
        with_headers("the signature of another message id", Some("msg-2"), now(), signature()),
        with_headers(
            "the signature of another timestamp",
            Some(&id),
            time.parse::<i64>().ok().map(|t| (t + 1).to_string()),
            signature(),
        ),
        with_headers("a repeated signature", Some(&id), now(), signature())
            .header("webhook-signature", &valid_signature),
        with_headers("a repeated timestamp", Some(&id), now(), signature()).header("webhook-timestamp", "1"),
        with_headers("a repeated message id", Some(&id), now(), signature()).header("webhook-id", "msg-2"),
        with_headers("a timestamp that is not a number", Some(&id), Some("now".to_owned()), signature()),
        with_headers("not base64", Some(&id), now(), Some("v1,????".to_owned())),
        refused(plain("six minutes old").signed(-360)),
        refused(plain("six minutes ahead").signed(360)),
        refused(callback("unsigned and not JSON: the signature is checked first", "{")),
    ]
}

fn contradictions(market: &Market) -> Vec<Case> {
    let Market { payment, settled, .. } = *market;
    let signed = |name: &str, body: String| callback(name, &body).signed(0);
    // The gateway transaction id that the test client reported in `Market::open`.
    let transaction = format!("txn-{settled}");
    let unknown = r#""reference":"0192f0c1-0000-7000-8000-00000000000f""#;
    let rest = r#""gatewayTxnId":"t","result":"SUCCESS","amount":88.50"#;
    let not_found = |case: Case| case.refused(404, "A0404", &[]).recorded();
    let needs_decision = |case: Case| case.unchanged(200).recorded();
    vec![
        not_found(signed("no such payment", report(9_007_199_254_740_991, "t", "SUCCESS", "88.50"))),
        not_found(signed("no such reference", format!("{{{unknown},{rest}}}"))),
        not_found(signed(
            "a reference that does not belong to the payment",
            format!(r#"{{{unknown},"paymentId":{payment},{rest}}}"#),
        )),
        signed("no such payment again", report(9_007_199_254_740_991, "t", "SUCCESS", "88.50")).refused(
            404,
            "A0404",
            &[],
        ),
        signed("the same result again", report(settled, &transaction, "SUCCESS", "88.50")).unchanged(200),
        signed("the same result again, with one decimal", report(settled, &transaction, "SUCCESS", "88.5"))
            .unchanged(200),
        signed(
            "the same result again, with an unknown field",
            report(settled, &transaction, "SUCCESS", "88.50").replace('}', r#","currency":"CNY"}"#),
        )
        .unchanged(200),
        needs_decision(signed(
            "a failure after the payment succeeded",
            report(settled, &transaction, "FAILED", "88.50"),
        )),
        needs_decision(signed(
            "another amount after a success",
            report(settled, &transaction, "SUCCESS", "88.51"),
        )),
        needs_decision(signed(
            "the gateway transaction of another payment",
            report(payment, &transaction, "SUCCESS", "88.50"),
        )),
    ]
}
