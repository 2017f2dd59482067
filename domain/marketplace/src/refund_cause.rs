//! Causes of refunds.

use handover_events::named;

/// The reason for which the refund was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundCause {
    Buyer,
    Operator,
    /// The payment succeeded after its order could no longer be paid.
    LatePayment,
    /// The gateway captured a payment more than once.
    SecondCapture,
    /// The gateway captured another amount than that of the payment.
    WrongAmount,
}

named!(RefundCause {
    Buyer => "buyer", Operator => "operator", LatePayment => "late_payment", SecondCapture => "second_capture",
    WrongAmount => "wrong_amount"
});
