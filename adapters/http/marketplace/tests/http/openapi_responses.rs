//! Calls every operation of the OpenAPI document, so that the client validates a success response of each.

use std::collections::BTreeSet;

use marketplace::Role;
use serde_json::json;

use crate::client::{ApiResponse, Request};
use crate::openapi::DOCUMENT;
use crate::world::{BUYER, GATEWAY_SECRET, SELLER, Setup, World, report};

/// Calls operations and records which succeeded.
struct Caller {
    world: World,
    succeeded: BTreeSet<String>,
}

impl Caller {
    fn record(&mut self, id: &str, response: &ApiResponse) {
        assert!((200..300).contains(&response.status), "{id}: {}", response.text);
        self.succeeded.insert(id.to_owned());
    }

    /// Calls an operation as this user; a POST gets an idempotency key.
    async fn call(&mut self, id: &str, user: i64, arguments: &[&str], body: Option<&str>) -> ApiResponse {
        let operation = DOCUMENT.operation(id);
        let mut arguments = arguments.iter();
        let segments: Vec<&str> = operation
            .path
            .split('/')
            .map(|segment| if segment.starts_with('{') { *arguments.next().unwrap() } else { segment })
            .collect();
        let key = format!("{id}-{}", self.succeeded.len());
        let roles: &[Role] = match id {
            // Only an operator of all tenants may do this.
            "acknowledgeAlert" | "archiveEvents" | "eraseUser" | "generateInvoice" | "refundInvoice" => {
                &[Role::Operator, Role::Platform]
            }
            _ => &[Role::User, Role::Operator],
        };
        let token = self.world.token(user, 1, roles);
        let query = match id {
            // Its only operation that requires a parameter.
            "findOrders" => format!("?buyerId={BUYER}"),
            _ => String::new(),
        };
        let path = segments.join("/") + &query;
        let mut request = Request::new(&self.world.router, &operation.method, &path).token(&token);
        if operation.method == "POST" {
            request = request.header("x-idempotency-key", &key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await;
        self.record(id, &response);
        response
    }

    /// Sends a callback as the gateway.
    async fn report(&mut self, id: &str, body: &str) {
        let path = DOCUMENT.operation(id).path.clone();
        let response = self.world.post(&path).json(body).signed(GATEWAY_SECRET, 0).send().await;
        self.record(id, &response);
    }

    async fn paid(&mut self, transaction: &str) -> String {
        let product =
            self.call("listProduct", SELLER, &[], Some(r#"{"title":"a lamp","price":88.50}"#)).await;
        let body = format!(r#"{{"productId":{}}}"#, product.id("productId"));
        let order = self.call("placeOrder", BUYER, &[], Some(&body)).await.id("orderId").to_string();
        let payment = self.call("payOrder", BUYER, &[&order], Some(r#"{"paymentMethod":"online"}"#)).await;
        self.report("reportPayment", &report(payment.id("paymentId"), transaction, "SUCCESS", "88.50")).await;
        order
    }
}

impl Caller {
    /// Creates a webhook endpoint, changes it, sends to it, and deletes it.
    async fn webhooks(&mut self) {
        let body =
            r#"{"url":"https://a.example","eventTypes":["*"],"headers":{"x-api-key":"1"},"asymmetric":true}"#;
        let created = self.call("createWebhook", SELLER, &[], Some(body)).await;
        let id = created.data["endpointId"].as_str().unwrap().to_owned();
        self.call("changeWebhook", SELLER, &[&id], Some(r#"{"description":"ERP","perSecond":null}"#)).await;
        self.call("rotateWebhookSecret", SELLER, &[&id], None).await;
        self.call("disableWebhook", SELLER, &[&id], Some(r#"{"reason":"moving"}"#)).await;
        self.call("enableWebhook", SELLER, &[&id], None).await;
        let sent = self.call("testWebhook", SELLER, &[&id], Some(r#"{"type":"order.paid"}"#)).await;
        let delivery = sent.id("deliveryId").to_string();
        self.call("redeliverWebhook", SELLER, &[&id, &delivery], None).await;
        self.call("webhookDeliveries", SELLER, &[&id], None).await;
        self.call("webhookDelivery", SELLER, &[&id, &delivery], None).await;
        let since = r#"{"since":"2026-01-01T00:00:00Z","dryRun":true}"#;
        self.call("recoverWebhook", SELLER, &[&id], Some(since)).await;
        self.call("webhooks", SELLER, &[], None).await;
        self.call("webhook", SELLER, &[&id], None).await;
        self.call("deleteWebhook", SELLER, &[&id], None).await;
    }

    /// A refund that succeeded fails: an operator closes the report, sends the refund again, and settles it by hand.
    async fn decide_about_refund(&mut self, refund: i64) {
        self.report("reportRefund", &format!(r#"{{"refundId":{refund},"result":"FAILED"}}"#)).await;
        let report = self.call("gatewayReports", SELLER, &[], None).await.ids("reportId")[0].to_string();
        let reason = Some(r#"{"reason":"checked with the gateway"}"#);
        self.call("reconciliation", SELLER, &[], None).await;
        let finding = self.call("findings", SELLER, &[], None).await.ids("findingId")[0].to_string();
        self.call("acknowledgeFinding", SELLER, &[&finding], reason).await;
        self.call("closeGatewayReport", SELLER, &[&report], reason).await;
        let refund = refund.to_string();
        self.call("retryRefund", SELLER, &[&refund], reason).await;
        self.call("settleRefund", SELLER, &[&refund], reason).await;
        self.call("refund", SELLER, &[&refund], None).await;
        self.call("eraseUser", SELLER, &["99"], reason).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_operation_succeeds_with_a_response_valid_against_the_document() {
    let world =
        World::with(Setup { on_failed: handover_outbox::ports::OnFailed::Hold, ..Setup::default() }).await;
    let mut caller = Caller { world, succeeded: BTreeSet::new() };
    let product = caller.world.product().await.to_string();
    caller.call("product", BUYER, &[&product], None).await;
    caller.call("hideProduct", SELLER, &[&product], None).await;
    caller.call("showProduct", SELLER, &[&product], Some("{}")).await;
    let user = BUYER.to_string();
    caller.call("deposit", SELLER, &[&user], Some(r#"{"amount":50.00}"#)).await;
    caller.call("grantPoints", SELLER, &[&user], Some(r#"{"points":500}"#)).await;
    let coupon = r#"{"userId":8,"discount":5.00,"minSpend":10,"expiresAt":"2027-01-01T00:00:00Z"}"#;
    caller.call("issueCoupon", SELLER, &[], Some(coupon)).await;

    let order = caller.paid("txn-1").await;
    caller.call("order", BUYER, &[&order], None).await;
    let listed = caller.call("payments", BUYER, &[&order], None).await;
    let payment = listed.data["items"][0]["paymentId"].to_string();
    caller.call("payment", BUYER, &[&order, &payment], None).await;
    caller.call("paymentOfOrder", SELLER, &[&order, &payment], None).await;
    caller.call("shipOrder", SELLER, &[&order], Some(r#"{"carrier":"SF","trackingNo":"1"}"#)).await;
    caller.call("completeOrder", BUYER, &[&order], None).await;
    let order = caller.world.order().await.to_string();
    caller.call("cancelOrder", BUYER, &[&order], None).await;
    let order = caller.paid("txn-2").await;
    let refund = caller.call("refundOrder", BUYER, &[&order], Some(r#"{"reason":"broken"}"#)).await;
    caller.call("refundOrderAsOperator", SELLER, &[&order], Some(r#"{"reason":"broken"}"#)).await;
    let reported = format!(r#"{{"refundId":{},"result":"SUCCESS"}}"#, refund.id("refundId"));
    caller.report("reportRefund", &reported).await;
    caller.call("refunds", BUYER, &[&order], None).await;
    caller.call("orderDetails", SELLER, &[&order], None).await;
    caller.call("orderTimeline", SELLER, &[&order], None).await;
    caller.call("refundsOfOrder", SELLER, &[&order], None).await;
    caller.decide_about_refund(refund.id("refundId")).await;

    let invoice = caller.world.invoice("2025-11").await.to_string();
    caller.call("generateInvoice", SELLER, &[], Some(r#"{"period":"2025-11"}"#)).await;
    let payment = caller.call("payInvoice", SELLER, &[&invoice], Some("{}")).await.id("paymentId");
    caller.report("reportPayment", &report(payment, "txn-3", "SUCCESS", "2.21")).await;
    caller.call("refundInvoice", SELLER, &[&invoice], Some(r#"{"reason":"billed twice"}"#)).await;
    caller.call("invoice", SELLER, &[&invoice], None).await;
    caller.call("invoiceTimeline", SELLER, &[&invoice], None).await;
    caller.webhooks().await;
    let (order, dead) = caller.world.dead_order().await;
    let (_, failed) = caller.world.failed_order().await;
    let named = json!({ "keys": [dead], "dryRun": true, "reason": "a test" }).to_string();
    caller.call("replayDeadLetters", SELLER, &[], Some(&named)).await;
    caller.call("discardDeadLetters", SELLER, &[], Some(&named)).await;
    caller.call("event", SELLER, &[&failed[0]], None).await;
    let (blocked, events) = caller.world.failed_order().await;
    let redriven = json!({ "eventIds": [failed[0], "none"], "perSecond": 5 }).to_string();
    caller.call("redriveEvents", SELLER, &[], Some(&redriven)).await;
    assert_eq!(events.len(), 2);
    // At this point the lists contain as many kinds of items as possible, so their responses are validated now.
    call_every_list(&mut caller).await;
    let acknowledged = r#"{"until":"2027-01-31T08:00:00Z","reason":"known"}"#;
    caller.call("acknowledgeAlert", SELLER, &["queue-depth"], Some(acknowledged)).await;
    caller.call("releaseAggregate", SELLER, &["Order", &blocked.to_string()], None).await;
    caller.world.run_until_idle().await;
    let archived = caller.call("archiveEvents", SELLER, &[], Some("{}")).await;
    assert!(archived.data["events"].as_u64() > Some(0), "{}", archived.text);
    caller.call("timeline", BUYER, &[&order.to_string()], None).await;
    let all = r#"{"from":"2026-01-01T00:00:00Z","to":"2027-01-01T00:00:00Z","reason":"known"}"#;
    caller.call("restoreEvents", SELLER, &[], Some(all)).await;
    caller.call("repair", SELLER, &[], None).await;
    call_every_list(&mut caller).await;

    let all: BTreeSet<String> = DOCUMENT.operations.iter().map(|operation| operation.id.clone()).collect();
    let remaining: Vec<&String> = all.difference(&caller.succeeded).collect();
    assert_eq!(remaining, ["document", "metrics"], "every operation with an envelope succeeded");
}

/// Calls every GET without path parameters, as buyer and as seller.
async fn call_every_list(caller: &mut Caller) {
    for operation in &DOCUMENT.operations {
        if operation.method != "GET" || operation.path.contains('{') || !operation.path.starts_with("/api/") {
            continue;
        }
        for user in [BUYER, SELLER] {
            caller.call(&operation.id, user, &[], None).await;
        }
    }
    caller.call("health", BUYER, &[], None).await;
    caller.call("readiness", BUYER, &[], None).await;
}
