//! The gateway's callbacks and `/api/v1/ops/gateway-reports`: every report with a valid signature is recorded.

use std::sync::Arc;

use handover_outbox::ports::{OnFailed, StoreError};
use marketplace::Role;
use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{BUYER, FailingStore, GATEWAY_SECRET, OTHER_USER, Setup, World, report};

const REPORTS: &str = "/api/v1/ops/gateway-reports";
const PAYMENTS: &str = "/api/v1/payments/callback";
const REFUNDS: &str = "/api/v1/refunds/callback";
const UNKNOWN: &str = "0192f0c1-0000-7000-8000-00000000000f";

impl World {
    /// GET as the role `platform`, with or without the role `pii`.
    fn get_as_platform(&self, path: &str, roles: &[Role]) -> Request {
        self.get(path).token(&self.token(OTHER_USER, 1, &[&[Role::Platform], roles].concat()))
    }

    /// All recorded reports, newest first.
    async fn reports(&self) -> Vec<Value> {
        let page = self.get_as_platform(REPORTS, &[Role::Pii]).send().await.expect(200, "00000");
        page.data["items"].as_array().unwrap().clone()
    }

    async fn reference_of_payment(&self, order: i64) -> String {
        let response = self.post_as(BUYER, &format!("/api/v1/orders/{order}/payments")).send().await;
        response.expect(201, "00000").data["reference"].as_str().unwrap().to_owned()
    }
}

/// The body of a payment report with these names of the payment.
fn named(names: &str) -> String {
    format!(r#"{{{names},"gatewayTxnId":"txn-1","result":"SUCCESS","amount":88.50}}"#)
}

/// The report without its id, time, hash and trace.
fn summary(report: &Value) -> Value {
    json!([report["kind"], report["outcome"], report["state"], report["error"]])
}

#[tokio::test(start_paused = true)]
async fn reference_names_the_payment_and_a_wrong_one_pays_no_order() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
    let reference = world.reference_of_payment(order).await;
    for names in [
        format!(r#""reference":"{UNKNOWN}""#),
        format!(r#""reference":"{UNKNOWN}","paymentId":{payment}"#),
        format!(r#""reference":"{reference}","paymentId":{}"#, payment + 1),
    ] {
        world.callback(&named(&names)).await.expect(404, "A0404");
        world.callback(&named(&names)).await.expect(404, "A0404");
    }
    for reference in ["7", "", &reference.replace('-', ""), &format!("{{{reference}}}")] {
        let response = world.callback(&named(&format!(r#""reference":"{reference}""#))).await;
        assert_eq!(response.expect(400, "A0400").wrong_fields(), ["reference"]);
    }
    assert_eq!(world.order_status(order).await, "pending");
    let paid = world.callback(&named(&format!(r#""reference":"{}""#, reference.to_uppercase()))).await;
    let paid = paid.expect(200, "00000");
    assert_eq!((paid.id("paymentId"), &paid.data["reference"]), (payment, &json!(reference)));
    assert_eq!(world.order_status(order).await, "paid");
    let both = named(&format!(r#""reference":"{reference}","paymentId":{payment}"#));
    world.callback(&both).await.expect(200, "00000");
    let reports = world.reports().await;
    let malformed = json!([
        "payment",
        "unreadable",
        "OPEN",
        "reference must be a UUID such as 0192f0c1-0000-7000-8000-000000000001"
    ]);
    let unknown = |outcome: &str| json!(["payment", outcome, "OPEN", null]);
    let mut expected = vec![json!(["payment", "order_paid", "DONE", null])];
    expected.extend(vec![malformed; 4]);
    expected.extend(["mismatch", "not_found", "not_found"].map(unknown));
    assert_eq!(reports.iter().map(summary).collect::<Vec<_>>(), expected, "each report is recorded once");
    assert_eq!(reports[0]["paymentId"], payment);
    assert_eq!(reports[7]["reference"], UNKNOWN);
}

#[tokio::test(start_paused = true)]
async fn required_reference_refuses_the_id_alone_and_records_the_report() {
    let world = World::with(Setup { requires_reference: true, ..Setup::default() }).await;
    let (order, payment) = world.order_with_payment().await;
    for body in [named(&format!(r#""paymentId":{payment}"#)), named(r#""reference":null"#)] {
        let response = world.callback(&body).await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), ["reference"]);
    }
    let response = world.signed(REFUNDS, r#"{"refundId":1,"result":"FAILED"}"#).await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["reference"]);
    let errors: Vec<Value> = world.reports().await.iter().map(summary).collect();
    let expected = |kind: &str| json!([kind, "unreadable", "OPEN", "reference is required"]);
    assert_eq!(errors, [expected("refund"), expected("payment"), expected("payment")]);
    assert_eq!(world.order_status(order).await, "pending");
    let reference = world.reference_of_payment(order).await;
    world.callback(&named(&format!(r#""reference":"{reference}""#))).await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_of_a_report_are_ignored_and_known_ones_are_checked() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
    let id = format!(r#""paymentId":{payment}"#);
    for (names, field) in [
        (format!(r#"{id},"paymentId":{payment}"#), "paymentId"),
        (format!(r#"{id},"amount":88.50"#), "amount"),
        (format!(r#""paymentId":"{payment}""#), "paymentId"),
        (format!(r#"{id},"reference":7"#), "reference"),
    ] {
        let response = world.callback(&named(&names)).await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), [field], "{names}");
    }
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let others = format!(
        r#"{id},"currency":"EUR","a":{{"x":1,"x":2}},"b":1,"b":2,"PaymentId":0,"amount ":"x","c":"\ud800","d":{deep}"#
    );
    world.callback(&named(&others)).await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn signed_body_that_cannot_be_read_is_recorded_once_with_hash_and_error() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
    let body = report(payment, "txn-1", "SUCCESS", "88.50");
    let post = |path: &str| world.post(path).json(body.clone()).signed(GATEWAY_SECRET, 0);
    for _ in 0..2 {
        world.callback("{").await.expect(400, "A0400");
    }
    let as_text =
        || world.post(PAYMENTS).header("content-type", "text/plain").text("some").signed(GATEWAY_SECRET, 0);
    let response = as_text().send().await.expect(415, "A0400");
    assert_eq!(response.message, "the content type must be application/json");
    world.signed(REFUNDS, r#"{"refundId":true}"#).await.expect(400, "A0400");
    post(PAYMENTS).header("content-encoding", "gzip").send().await.expect(415, "A0400");
    let with_query = post("/api/v1/payments/callback?shop=1").send().await.expect(400, "A0400");
    assert_eq!(with_query.wrong_fields(), ["shop"]);
    let long_name = format!("/api/v1/refunds/callback?%00{}=1", "x".repeat(600));
    post(&long_name).send().await.expect(400, "A0400");
    // Without a valid signature nothing is recorded.
    world
        .post(PAYMENTS)
        .json("[")
        .signed("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", 0)
        .send()
        .await
        .expect(401, "A0301");
    let mut reports = world.reports().await;
    let long = reports.remove(0)["error"].as_str().unwrap().to_owned();
    assert_eq!(
        long,
        format!(" {}", "x".repeat(499)),
        "the recorded error is bounded and has no control characters"
    );
    assert_eq!(
        reports.iter().map(summary).collect::<Vec<_>>(),
        [
            json!([
                "payment",
                "unreadable",
                "OPEN",
                "the body must not be encoded: send it without Content-Encoding"
            ]),
            json!(["refund", "unreadable", "OPEN", "refundId must be a number; result is required"]),
            json!(["payment", "unreadable", "OPEN", "the content type must be application/json"]),
            json!(["payment", "unreadable", "OPEN", "body is not valid JSON: line 1, column 1"]),
        ]
    );
    let hash = "021fb596db81e6d02bf3d2586ee3981fe519f275c0ac9ca76bbcf2ebb4097d96";
    assert_eq!(reports[3]["bodyHash"], hash, "SHA-256 of the body");
    assert_eq!(reports[3]["tenantId"], Value::Null);
    assert_eq!(world.order_status(order).await, "pending");
}

#[tokio::test(start_paused = true)]
async fn callback_is_503_while_its_report_cannot_be_recorded() {
    let store = FailingStore(|| StoreError::Unavailable("swordfish".into()));
    let world =
        World::with(Setup { store: Some(Arc::new(store)), on_failed: OnFailed::Hold, ..Setup::default() })
            .await;
    for (path, body) in [(PAYMENTS, "{"), (PAYMENTS, "{}"), (REFUNDS, "[]")] {
        world.signed(path, body).await.expect(503, "C0001");
    }
}

#[tokio::test(start_paused = true)]
async fn open_report_is_listed_for_its_tenant_and_closed_once_with_reason() {
    let world = World::new().await;
    let (_, payment) = world.order_with_payment().await;
    for result in ["SUCCESS", "FAILED"] {
        world.callback(&report(payment, "txn-1", result, "88.50")).await.expect(200, "00000");
    }
    world.callback("{}").await.expect(400, "A0400");
    let all = format!("{REPORTS}?from=2026-01-31T08:00:00Z&to=2026-01-31T08:00:01Z");
    let page = world.get_as_operator(&all).send().await.expect(200, "00000");
    let [newest, oldest] = page.data["items"].as_array().unwrap().as_slice() else { panic!("{}", page.text) };
    assert_eq!(summary(newest), json!(["payment", "payment_failed_after_success", "OPEN", null]));
    assert_eq!(summary(oldest), json!(["payment", "order_paid", "DONE", null]));
    assert_eq!(newest["transactionId"], "***", "only the role pii sees transaction ids");
    assert_eq!((&newest["result"], &newest["amount"].to_string()), (&json!("FAILED"), &"88.50".to_owned()));
    let first = world.get_as_operator(&format!("{REPORTS}?limit=1")).send().await.expect(200, "00000");
    let cursor = first.data["nextCursor"].as_str().unwrap();
    let rest = world.get_as_operator(&format!("{REPORTS}?limit=1&cursor={cursor}")).send().await;
    assert_eq!(rest.expect(200, "00000").data["items"], json!([oldest]));
    let later = format!("{REPORTS}?from=2026-01-31T08:00:01Z");
    assert_eq!(world.get_as_operator(&later).send().await.expect(200, "00000").data["items"], json!([]));
    let wrong = world.get_as_operator(&format!("{REPORTS}?state=open&from=now")).send().await;
    assert_eq!(wrong.expect(400, "A0400").wrong_fields(), ["state", "from"]);

    let id = newest["reportId"].as_i64().unwrap();
    let path = format!("{REPORTS}/{id}/close");
    let reason = r#"{"reason":"refunded at the gateway"}"#;
    let foreign = world.token(OTHER_USER, 2, &[Role::Operator]);
    world.post(&path).token(&foreign).json(reason).send().await.expect(404, "A0404");
    let without = world.post_as_operator(&path).json("{}").send().await.expect(400, "A0400");
    assert_eq!(without.wrong_fields(), ["reason"]);
    let close = || world.post_as_operator(&path).header("x-idempotency-key", "k").json(reason);
    let closed = close().send().await.expect(200, "00000");
    let repeated = close().send().await.expect(200, "00000");
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(repeated.data, closed.data);
    let decision = json!([closed.data["state"], closed.data["closedBy"], closed.data["closeReason"]]);
    assert_eq!(decision, json!(["CLOSED", "user:9", "refunded at the gateway"]));
    let again =
        world.post_as_operator(&path).json(r#"{"reason":"another"}"#).send().await.expect(200, "00000");
    assert_eq!(again.data["closeReason"], "refunded at the gateway", "a closed report stays as it is");
    world.post_as_operator(&format!("{REPORTS}/0/close")).json(reason).send().await.expect(404, "A0404");

    // Only the role platform sees the report that belongs to no tenant.
    let open = format!("{REPORTS}?state=OPEN");
    assert_eq!(world.get_as_operator(&open).send().await.expect(200, "00000").data["items"], json!([]));
    let unreadable = world.get_as_platform(&open, &[]).send().await.expect(200, "00000");
    assert_eq!(unreadable.data["items"][0]["outcome"], "unreadable");
    let missing = format!("{REPORTS}/{}/close", unreadable.ids("reportId")[0]);
    let missing = world.post_as_operator(&missing).header("accept-language", "zh").json(reason).send().await;
    assert_eq!(missing.expect(404, "A0404").message, "支付网关报告不存在");
}
