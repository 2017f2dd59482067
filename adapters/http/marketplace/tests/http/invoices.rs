//! `/api/v1/invoices` and `/api/v1/ops/invoices`.

use handover_outbox::ports::Store as _;
use marketplace::Role;
use marketplace_domain::{Order, OrderStatus};
use serde_json::json;

use crate::client::{ApiResponse, Request};
use crate::world::{OTHER_USER, World, report};

const GENERATE: &str = "/api/v1/ops/invoices/generate";

impl World {
    /// An order of tenant 1 over 88.50 that was completed at this time.
    pub(crate) async fn completed_order_at(&self, complete_time: &str) -> i64 {
        let id = self.order().await;
        let mut unit = self.memory.begin().await.unwrap();
        let tenant = 1.try_into().unwrap();
        let order = unit.order_by_id(tenant, id.try_into().unwrap()).await.unwrap().unwrap();
        let complete_time = Some(complete_time.parse().unwrap());
        let version = order.version + 1;
        let status = OrderStatus::Completed;
        unit.advance_order(&Order { status, complete_time, version, ..order })
            .await
            .unwrap()
            .or_conflict("order")
            .unwrap();
        unit.commit().await.unwrap();
        id
    }

    /// The invoice of tenant 1 for this month, with one order.
    pub(crate) async fn invoice(&self, period: &str) -> i64 {
        self.completed_order_at(&format!("{period}-30T08:00:00Z")).await;
        let body = json!({ "period": period }).to_string();
        self.generate(&[Role::Platform], body).send().await.expect(201, "00000").id("invoiceId")
    }

    /// A paid invoice of tenant 1 for this month, and its payment.
    pub(crate) async fn paid_invoice(&self, period: &str) -> (i64, i64) {
        let invoice = self.invoice(period).await;
        let payment = self.pay_invoice(1, invoice, "{}").send().await.expect(201, "00000").id("paymentId");
        let report = report(payment, &format!("txn-of-invoice-{invoice}"), "SUCCESS", "2.21");
        self.callback(&report).await.expect(200, "00000");
        (invoice, payment)
    }

    /// Pays an invoice as an operator of this tenant.
    fn pay_invoice(&self, tenant: i64, invoice: i64, body: &str) -> Request {
        let token = self.token(OTHER_USER, tenant, &[Role::Operator]);
        let key = format!("pay-{invoice}-{body}");
        self.post(&format!("/api/v1/invoices/{invoice}/payments"))
            .token(&token)
            .header("x-idempotency-key", &key)
            .json(body)
    }

    fn refund_invoice(&self, roles: &[Role], invoice: i64) -> Request {
        let path = format!("/api/v1/ops/invoices/{invoice}/refunds");
        self.post(&path).token(&self.token(OTHER_USER, 1, roles)).json(r#"{"reason":"billed twice"}"#)
    }

    fn generate(&self, roles: &[Role], body: impl Into<String>) -> Request {
        self.post(GENERATE).token(&self.token(OTHER_USER, 1, roles)).json(body)
    }

    async fn invoice_as(&self, tenant: i64, path: &str) -> ApiResponse {
        self.get(path).token(&self.token(OTHER_USER, tenant, &[Role::Operator])).send().await
    }
}

#[tokio::test(start_paused = true)]
async fn platform_generates_an_invoice_that_operators_of_the_tenant_read_with_its_lines() {
    let world = World::new().await;
    let orders = [
        world.completed_order_at("2025-12-01T00:00:00Z").await,
        world.completed_order_at("2025-12-31T23:59:59Z").await,
    ];
    world.completed_order_at("2026-01-01T00:00:00Z").await;
    let body = r#"{"period":"2025-12"}"#;
    let generated = world.generate(&[Role::Platform], body).header("x-idempotency-key", "k").send().await;
    let generated = generated.expect(201, "00000");
    let id = generated.id("invoiceId");
    let trace = generated.data["traceId"].clone();
    let expected = json!({
        "invoiceId": id, "tenantId": 1, "period": "2025-12", "feeBps": 250, "orders": 2,
        "total": generated.data["total"], "currency": "CNY", "status": "pending", "traceId": trace,
        "createTime": "2026-01-31T08:00:00.000000Z", "payTime": null, "updateTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(generated.data, expected);
    assert!(generated.text.contains(r#""total":4.42,"#), "{}", generated.text);
    let again = world.generate(&[Role::Platform], body).header("x-idempotency-key", "k").send().await;
    assert_eq!((again.header("idempotent-replayed"), &again.data), (Some("true"), &expected));
    let repeated = world.generate(&[Role::Platform], r#"{"tenantId":1,"period":"2025-12"}"#).send().await;
    assert_eq!(repeated.expect(201, "00000").data, expected);

    let listed = world.invoice_as(1, "/api/v1/invoices?status=pending").await.expect(200, "00000");
    assert_eq!(listed.data, json!({ "items": [expected], "nextCursor": null }));
    assert_eq!(world.invoice_as(1, "/api/v1/invoices?status=paid").await.ids("invoiceId"), [0_i64; 0]);
    assert_eq!(world.invoice_as(2, "/api/v1/invoices").await.ids("invoiceId"), [0_i64; 0]);
    let shown = world.invoice_as(1, &format!("/api/v1/invoices/{id}?limit=1")).await.expect(200, "00000");
    assert_eq!(
        (&shown.data["invoice"], &shown.data["nextCursor"]),
        (&expected, &json!(orders[0].to_string()))
    );
    let line = r#""lines":[{"orderId":1,"totalAmount":88.50,"fee":2.21,"completeTime":"2025-12-01T00:00:00.000000Z"}]"#;
    assert!(shown.text.contains(line), "{}", shown.text);
    let rest = format!("/api/v1/invoices/{id}?cursor={}", orders[0]);
    let rest = world.invoice_as(1, &rest).await.expect(200, "00000");
    assert_eq!(rest.data["lines"][0]["orderId"], orders[1]);
    assert_eq!((rest.data["lines"].as_array().unwrap().len(), rest.data["nextCursor"].is_null()), (1, true));
    world.invoice_as(2, &format!("/api/v1/invoices/{id}")).await.expect(404, "A0404");
    world.invoice_as(1, "/api/v1/invoices/4711").await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn only_the_platform_generates_and_only_closed_months_with_orders() {
    let world = World::new().await;
    world.completed_order_at("2025-12-01T00:00:00Z").await;
    for (body, status, code, message) in [
        (r#"{"period":"2026-01"}"#, 409, "A0409", "the period 2026-01 is not closed"),
        (r#"{"period":"2999-01"}"#, 409, "A0409", "the period 2999-01 is not closed"),
        (r#"{"period":"2025-11"}"#, 409, "A0409", "no order was completed in the period 2025-11"),
        (r#"{"tenantId":7,"period":"2025-12"}"#, 404, "A0404", "no such tenant"),
    ] {
        let refused = world.generate(&[Role::Platform], body).send().await.expect(status, code);
        assert!(refused.message.contains(message), "{}", refused.text);
    }
    for body in [r#"{"period":"2025-13"}"#, r#"{"period":"2025"}"#, r#"{"period":202512}"#, "{}"] {
        let refused = world.generate(&[Role::Platform], body).send().await.expect(400, "A0400");
        assert_eq!(refused.data["errors"].as_array().unwrap().len(), 1, "{}", refused.text);
    }
    let body = r#"{"period":"2025-12"}"#;
    world.generate(&[Role::Operator], body).send().await.expect(403, "A0303");
    assert_eq!(world.invoice_as(1, "/api/v1/invoices").await.ids("invoiceId"), [0_i64; 0]);
    let chinese =
        world.generate(&[Role::Platform], r#"{"period":"2025-11"}"#).header("accept-language", "zh");
    assert_eq!(chinese.send().await.message, "账期 2025-11 没有已完成的订单");
}

#[tokio::test(start_paused = true)]
async fn operator_pays_an_invoice_of_the_tenant_and_the_platform_refunds_it() {
    let world = World::new().await;
    let invoice = world.invoice("2025-12").await;
    let started =
        world.pay_invoice(1, invoice, r#"{"paymentMethod":"card"}"#).send().await.expect(201, "00000");
    let payment = started.id("paymentId");
    let expected = json!({
        "paymentId": payment, "reference": started.data["reference"], "orderId": null, "invoiceId": invoice,
        "amount": started.data["amount"], "paymentMethod": "card", "status": "PROCESSING",
        "expiresAt": null
    });
    assert_eq!(started.data, expected);
    assert!(started.text.contains(r#""amount":2.21,"#), "{}", started.text);
    assert_eq!(world.pay_invoice(1, invoice, "{}").send().await.expect(201, "00000").data, expected);
    let other =
        world.pay_invoice(1, invoice, r#"{"paymentMethod":"alipay"}"#).send().await.expect(409, "A0409");
    assert!(other.message.contains("a payment by card is in progress"), "{}", other.message);
    world.pay_invoice(2, invoice, "{}").send().await.expect(404, "A0404");
    world.pay_invoice(1, 4_711, "{}").send().await.expect(404, "A0404");
    let without_key = world.post(&format!("/api/v1/invoices/{invoice}/payments"));
    let token = world.token(OTHER_USER, 1, &[Role::Operator]);
    without_key.token(&token).json("{}").send().await.expect(400, "A0400");

    let early = world.refund_invoice(&[Role::Platform], invoice).send().await.expect(409, "A0409");
    assert_eq!(early.message, "cannot refund an invoice that is pending");
    let reported = world.callback(&report(payment, "txn-1", "SUCCESS", "2.21")).await.expect(200, "00000");
    assert_eq!((&reported.data["invoiceId"], &reported.data["status"]), (&json!(invoice), &json!("SUCCESS")));
    let paid = world.invoice_as(1, &format!("/api/v1/invoices/{invoice}")).await.expect(200, "00000");
    assert_eq!(paid.data["invoice"]["status"], "paid");
    assert_eq!(paid.data["payments"][0]["transactionId"], "txn-1");
    let late = world.pay_invoice(1, invoice, r#"{"paymentMethod":"wechat"}"#);
    let late = late.header("accept-language", "zh").send().await.expect(409, "A0409");
    assert_eq!(late.message, "账单已支付，不能执行此操作");

    world.refund_invoice(&[Role::Operator], invoice).send().await.expect(403, "A0303");
    let refund = world.refund_invoice(&[Role::Platform], invoice).send().await.expect(201, "00000");
    let id = refund.id("refundId");
    assert_eq!((&refund.data["orderId"], &refund.data["invoiceId"]), (&json!(null), &json!(invoice)));
    let again = world.refund_invoice(&[Role::Platform], invoice).send().await.expect(201, "00000");
    assert_eq!(again.id("refundId"), id);
    let seen = world.get_as_operator(&format!("/api/v1/ops/refunds/{id}")).send().await.expect(200, "00000");
    assert_eq!((&seen.data["invoiceId"], &seen.data["reason"]), (&json!(invoice), &json!("billed twice")));
    let reports = world.get_as_operator("/api/v1/ops/gateway-reports").send().await.expect(200, "00000");
    assert_eq!(reports.data["items"][0]["invoiceId"], invoice);
    assert_eq!(reports.data["items"][0]["outcome"], "invoice_paid");
    let result = json!({ "refundId": id, "result": "SUCCESS" }).to_string();
    world.signed("/api/v1/refunds/callback", &result).await.expect(200, "00000");
    let refunded = world.invoice_as(1, &format!("/api/v1/invoices/{invoice}")).await.expect(200, "00000");
    assert_eq!(refunded.data["invoice"]["status"], "refunded");
    assert_eq!(refunded.data["refunds"][0]["status"], "SUCCESS");
    let refused = world.refund_invoice(&[Role::Platform], invoice).send().await.expect(409, "A0409");
    assert_eq!(refused.message, "cannot refund an invoice that is refunded");
}
