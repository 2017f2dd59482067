//! The payment gateway, as far as we ask it for something: it reports what became of it by a signed callback.

use async_trait::async_trait;
use handover_events::Trace;
use marketplace_domain::{Currency, Money, OrderId, PaymentId, RefundId};

/// Money that is to go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundRequest {
    /// Which refund: the same refund is the same request, however often it is made.
    pub refund: RefundId,
    /// Of which payment.
    pub payment: PaymentId,
    /// The gateway's own id of that payment.
    pub transaction_id: Option<String>,
    /// For which order.
    pub order: OrderId,
    /// How much.
    pub amount: Money,
    /// In which currency.
    pub currency: Currency,
    /// The trace of the request that began the refund.
    pub trace: Trace,
}

impl RefundRequest {
    /// The key under which the gateway does it once.
    pub fn idempotency_key(&self) -> String {
        format!("refund:{}", self.refund)
    }
}

/// Why a gateway did not take a request. Nobody knows whether it did: asking again is the way to find out.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// It does not answer, or not in time, or with an error of its own.
    #[error("the payment gateway is away: {0}")]
    Unavailable(String),
    /// It refuses the request as it is; asking again will not help by itself.
    #[error("the payment gateway refuses: {0}")]
    Refused(String),
}

/// A payment gateway.
#[async_trait]
pub trait Gateway: Send + Sync {
    /// Asks to pay back. `Ok` means taken, not done. Asked again under the same key it MUST pay back once, and MUST report
    /// again what became of it, if that is known.
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError>;
}
