//! Requests to the payment gateway. The gateway reports their results with signed callbacks.

use async_trait::async_trait;
use handover_events::Trace;
use marketplace_domain::{Currency, Money, PayableId, PaymentId, Reference, RefundId};

/// Request to refund a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundRequest {
    pub refund: RefundId,
    /// Name of this attempt at the refund, which the gateway reports; `None` for a refund that an earlier version wrote.
    pub reference: Option<Reference>,
    /// Idempotency key: the gateway executes requests with the same key once.
    pub key: String,
    pub payment: PaymentId,
    /// Name of the payment; `None` for a payment that an earlier version wrote.
    pub payment_reference: Option<Reference>,
    /// The gateway's transaction id of the captured money.
    pub transaction_id: Option<String>,
    /// The order or invoice of the payment.
    pub of: PayableId,
    pub amount: Money,
    pub currency: Currency,
    /// Trace of the request that started the refund.
    pub trace: Trace,
}

/// Reason why a gateway did not accept a request. The gateway may have executed the request, so the caller must repeat
/// it with the same key.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// No response, a timeout, or a server error.
    #[error("payment gateway unavailable: {0}")]
    Unavailable(String),
    /// The gateway rejected the request. It will probably reject the same request again.
    #[error("payment gateway rejected the request: {0}")]
    Refused(String),
}

#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Gateway: Send + Sync {
    /// Requests a refund. `Ok` means accepted, not executed. After repeated requests with the same key, the gateway MUST pay
    /// the amount back only once, and MUST send its report again if the result is known.
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError>;
}
