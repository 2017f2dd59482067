//! Signed callbacks of the simulated payment gateway.

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use hyper::Method;
use marketplace_domain::{Money, PaymentId, RefundId};
use serde_json::{Value, json};

use super::{Api, ApiResponse, NoResponse};

/// Result of a payment or refund as the gateway reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Report {
    Success,
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
    /// Reports the result of a payment in this transaction of the gateway.
    pub(in super::super) async fn report(
        &self,
        payment: PaymentId,
        transaction: &str,
        amount: Money,
        report: Report,
    ) -> Result<ApiResponse, NoResponse> {
        let body = json!({
            "paymentId": payment, "gatewayTxnId": transaction, "result": report.as_str(), "amount": amount,
        });
        self.signed("/api/v1/payments/callback", format!("msg-{payment}"), &body).await
    }

    pub(in super::super) async fn report_refund(
        &self,
        refund: RefundId,
        report: Report,
    ) -> Result<ApiResponse, NoResponse> {
        let body = json!({"refundId": refund, "result": report.as_str()});
        self.signed("/api/v1/refunds/callback", format!("msg-refund-{refund}"), &body).await
    }

    async fn signed(&self, path: &str, id: String, body: &Value) -> Result<ApiResponse, NoResponse> {
        let (body, now) = (body.to_string(), SystemClock.now().timestamp());
        let signature = self
            .gateway
            .sign(&id, now, body.as_bytes())
            .map_err(|error| NoResponse { what: path.to_owned(), why: error.to_string() })?;
        let signed = [
            ("webhook-id", id),
            ("webhook-timestamp", now.to_string()),
            ("webhook-signature", signature),
            ("content-type", "application/json".to_owned()),
        ];
        self.send(Method::POST, path, &signed, body).await
    }
}
