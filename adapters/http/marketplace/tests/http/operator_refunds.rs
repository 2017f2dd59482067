//! `/api/v1/ops/refunds` and `/api/v1/ops/orders/{id}/refunds`: operators request refunds, list them, send them again, or settle them
//! by hand.

use marketplace::Role;
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{BUYER, OTHER_USER, SELLER, World};

const REFUNDS: &str = "/api/v1/ops/refunds";
const CALLBACK: &str = "/api/v1/refunds/callback";
const REASON: &str = r#"{"reason":"checked with the gateway"}"#;

impl World {
    /// Creates a paid order whose refund has failed; returns order and refund.
    async fn failed_refund(&self) -> (i64, i64) {
        let order = self.paid_order().await;
        let path = format!("/api/v1/orders/{order}/refunds");
        let refund =
            self.post_as(BUYER, &path).json(r#"{"reason":"broken"}"#).send().await.expect(201, "00000");
        let refund = refund.id("refundId");
        self.refund_named(&format!(r#""refundId":{refund}"#), "FAILED").await.expect(200, "00000");
        (order, refund)
    }

    async fn refund_named(&self, names: &str, result: &str) -> ApiResponse {
        self.signed(CALLBACK, &format!(r#"{{{names},"result":"{result}","gatewayTxnId":"r-1"}}"#)).await
    }

    async fn decide(&self, refund: i64, action: &str, key: &str) -> ApiResponse {
        let path = format!("{REFUNDS}/{refund}/{action}");
        self.post_as_operator(&path).header("x-idempotency-key", key).json(REASON).send().await
    }
}

#[tokio::test(start_paused = true)]
async fn retry_begins_a_new_attempt_with_its_own_reference_once_per_key() {
    let world = World::new().await;
    let (order, refund) = world.failed_refund().await;
    let failed = world.get_as_operator(&format!("{REFUNDS}?state=FAILED")).send().await.expect(200, "00000");
    let failed = &failed.data["items"][0];
    assert_eq!(failed["reason"], "***", "only the role pii sees reasons of buyers");
    let retried = world.decide(refund, "retry", "k").await.expect(200, "00000");
    let again = world.decide(refund, "retry", "k").await.expect(200, "00000");
    assert_eq!((again.header("idempotent-replayed"), &again.data), (Some("true"), &retried.data));
    let state = |refund: &Value| {
        json!([refund["status"], refund["attempt"], refund["requests"], refund["lastError"]])
    };
    assert_eq!(state(failed), json!(["FAILED", 1, 0, null]));
    assert_eq!(state(&retried.data), json!(["PROCESSING", 2, 0, null]));
    assert_ne!(retried.data["reference"], failed["reference"]);
    // A late report of the first attempt changes nothing; a report of the second one settles the refund.
    let first = failed["reference"].as_str().unwrap();
    let second = retried.data["reference"].as_str().unwrap();
    let late = world.refund_named(&format!(r#""reference":"{first}""#), "FAILED").await.expect(200, "00000");
    assert_eq!(late.data["status"], "FAILED", "a repeated report gets the first answer");
    let settled =
        world.refund_named(&format!(r#""reference":"{second}""#), "SUCCESS").await.expect(200, "00000");
    assert_eq!(state(&settled.data), json!(["SUCCESS", 2, null, null]));
    assert_eq!(world.order_status(order).await, "refunded");
    let shown = world.get_as_operator(&format!("{REFUNDS}/{refund}")).send().await.expect(200, "00000");
    let details =
        ["status", "attempt", "settledAttempt", "transactionId", "settledBy", "payouts", "excess", "cause"];
    assert_eq!(
        json!(details.map(|name| &shown.data[name])),
        json!(["SUCCESS", 2, 2, "r-1", null, 1, false, "buyer"])
    );
    let refused = world.decide(refund, "retry", "k-2").await.expect(409, "A0409");
    assert_eq!(refused.message, "the refund is already SUCCESS");
}

#[tokio::test(start_paused = true)]
async fn refund_settled_by_hand_succeeds_and_a_later_report_needs_a_decision() {
    let world = World::new().await;
    let (order, refund) = world.failed_refund().await;
    let settled = world.decide(refund, "settle", "k").await.expect(200, "00000");
    assert_eq!((&settled.data["status"], &settled.data["settledBy"]), (&json!("SUCCESS"), &json!("user:9")));
    assert_eq!(world.order_status(order).await, "refunded");
    world.decide(refund, "settle", "k-2").await.expect(409, "A0409");
    let late = world.refund_named(&format!(r#""refundId":{refund}"#), "SUCCESS").await.expect(200, "00000");
    assert_eq!(late.data["status"], "SUCCESS");
    let open = world.get_as_operator("/api/v1/ops/gateway-reports?state=OPEN").send().await;
    assert_eq!(open.expect(200, "00000").data["items"][0]["outcome"], "settled_by_operator");
    let audit = world.get_as_operator("/api/v1/ops/audit?changes=true").send().await.expect(200, "00000");
    let entry = &audit.data["items"][0];
    assert_eq!(
        (&entry["action"], &entry["reason"]),
        (&json!("refund.settle"), &json!("checked with the gateway"))
    );
}

#[tokio::test(start_paused = true)]
async fn refund_of_money_that_another_refund_returns_is_409_in_both_languages() {
    let world = World::new().await;
    let (order, first) = world.failed_refund().await;
    let path = format!("/api/v1/orders/{order}/refunds");
    let second = world.post_as(BUYER, &path).json(REASON).send().await.expect(201, "00000").id("refundId");
    for action in ["retry", "settle"] {
        let refused = world.decide(first, action, action).await.expect(409, "A0409");
        assert_eq!(
            refused.message,
            format!("refund {second} has returned the same money, or is returning it")
        );
    }
    let path = format!("{REFUNDS}/{first}/retry");
    let chinese = world.post_as_operator(&path).header("accept-language", "zh").json(REASON).send().await;
    assert_eq!(chinese.expect(409, "A0409").message, format!("退款单 {second} 已退回或正在退回同一笔款项"));
}

#[tokio::test(start_paused = true)]
async fn refunds_of_other_tenants_and_invalid_requests_are_refused() {
    let world = World::new().await;
    let (_, refund) = world.failed_refund().await;
    let foreign = world.token(OTHER_USER, 2, &[Role::Operator]);
    let missing = [format!("{REFUNDS}/{refund}"), format!("{REFUNDS}/x"), format!("{REFUNDS}/0")];
    for path in &missing {
        world.get(path).token(&foreign).send().await.expect(404, "A0404");
    }
    let page = world.get(REFUNDS).token(&foreign).send().await.expect(200, "00000");
    assert_eq!(page.data["items"], json!([]));
    for action in ["retry", "settle"] {
        let path = format!("{REFUNDS}/{refund}/{action}");
        world.post(&path).token(&foreign).json(REASON).send().await.expect(404, "A0404");
        let without = world.post_as_operator(&path).json("{}").send().await.expect(400, "A0400");
        assert_eq!(without.wrong_fields(), ["reason"]);
    }
    let wrong = world.get_as_operator(&format!("{REFUNDS}?state=failed&from=now")).send().await;
    assert_eq!(wrong.expect(400, "A0400").wrong_fields(), ["state", "from"]);
}

#[tokio::test(start_paused = true)]
async fn refund_by_the_platform_is_of_the_orders_tenant_and_its_reason_is_not_for_the_parties() {
    const INTERNAL: &str = "the seller is under investigation";
    let world = World::new().await;
    let order = world.paid_order().await;
    let platform = world.token(OTHER_USER, 2, &[Role::Platform]);
    let path = format!("/api/v1/ops/orders/{order}/refunds");
    let body = json!({ "reason": INTERNAL }).to_string();
    let user = world.post_as(BUYER, &path).json(body.clone()).send().await;
    user.expect(403, "A0303");
    let request = || world.post(&path).token(&platform).json(body.clone());
    let refund = request().send().await.expect(201, "00000");
    assert_eq!((&refund.data["tenantId"], &refund.data["cause"]), (&json!(1), &json!("operator")));
    assert_eq!(refund.data["reason"], INTERNAL);
    let again = request().send().await.expect(201, "00000");
    assert_eq!(again.data["refundId"], refund.data["refundId"]);
    let listed = world.get(&path).token(&platform).send().await.expect(200, "00000");
    assert_eq!(listed.data["items"], json!([refund.data]));
    for party in [BUYER, SELLER] {
        for part in ["refunds", "timeline"] {
            let own = world.get_data_as(party, &format!("orders/{order}/{part}")).await.to_string();
            assert!(!own.contains(INTERNAL) && own.contains("***"), "{own}");
        }
    }
    let buyers = world.post_as(BUYER, &format!("/api/v1/orders/{order}/refunds")).json(body).send().await;
    assert_eq!(buyers.expect(201, "00000").data["reason"], "***");
    let audit = world.get_as_operator("/api/v1/ops/audit?changes=true").send().await.expect(200, "00000");
    let entries = audit.data["items"].as_array().unwrap();
    let requested: Vec<&Value> = entries.iter().filter(|entry| entry["action"] == "refund.request").collect();
    let [requested] = &requested[..] else { panic!("not one change: {entries:?}") };
    assert_eq!((&requested["tenantId"], &requested["reason"]), (&json!(1), &json!(INTERNAL)));
}
