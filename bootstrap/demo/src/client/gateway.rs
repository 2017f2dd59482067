//! The payment gateway: what it reports, signed.

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use hyper::Method;
use marketplace_domain::{Money, PaymentId, RefundId};
use serde_json::{Value, json};

use super::{Answer, Api, Unanswered};

/// What the gateway reports about a payment or a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Report {
    /// The money has arrived where it should.
    Success,
    /// It has not.
    Failed,
}

impl Report {
    const fn as_str(self) -> &'static str {
        match self {
            Report::Success => "SUCCESS",
            Report::Failed => "FAILED",
        }
    }
}

impl Api {
    /// The gateway reports how a payment ended.
    pub(in super::super) async fn report(
        &self,
        payment: PaymentId,
        amount: Money,
        report: Report,
    ) -> Result<Answer, Unanswered> {
        let body = json!({
            "paymentId": payment, "gatewayTxnId": format!("txn-{payment}"), "result": report.as_str(),
            "amount": amount,
        });
        self.signed("/api/v1/payments/callback", format!("msg-{payment}"), &body).await
    }

    /// The gateway reports how a refund ended.
    pub(in super::super) async fn report_refund(
        &self,
        refund: RefundId,
        report: Report,
    ) -> Result<Answer, Unanswered> {
        let body = json!({"refundId": refund, "result": report.as_str()});
        self.signed("/api/v1/refunds/callback", format!("msg-refund-{refund}"), &body).await
    }

    async fn signed(&self, path: &str, id: String, body: &Value) -> Result<Answer, Unanswered> {
        let (body, now) = (body.to_string(), SystemClock.now().timestamp());
        let signature = self
            .gateway
            .sign(&id, now, body.as_bytes())
            .map_err(|error| Unanswered { what: path.to_owned(), why: error.to_string() })?;
        let signed = [
            ("webhook-id", id),
            ("webhook-timestamp", now.to_string()),
            ("webhook-signature", signature),
            ("content-type", "application/json".to_owned()),
        ];
        self.send(Method::POST, path, &signed, body).await
    }
}
