//! Causes of refunds.

use handover_events::named;

/// The reason for which the refund was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundCause {
    Buyer,
    /// The seller declined the paid order.
    Seller,
    Operator,
    /// The payment succeeded after its order or invoice could no longer be paid.
    LatePayment,
    /// The gateway captured a payment more than once.
    SecondCapture,
    /// The gateway captured another amount than that of the payment.
    WrongAmount,
}

named!(RefundCause {
    Buyer => "buyer", Seller => "seller", Operator => "operator", LatePayment => "late_payment", SecondCapture => "second_capture",
    WrongAmount => "wrong_amount"
});

impl RefundCause {
    /// Whether the refund was requested for the money that paid the order or invoice. Otherwise the money never paid it.
    pub const fn is_requested(self) -> bool {
        match self {
            RefundCause::Buyer | RefundCause::Seller | RefundCause::Operator => true,
            RefundCause::LatePayment | RefundCause::SecondCapture | RefundCause::WrongAmount => false,
        }
    }

    /// Whether a party of the order wrote the reason, which is personal data.
    pub const fn is_of_party(self) -> bool {
        match self {
            RefundCause::Buyer | RefundCause::Seller => true,
            RefundCause::Operator
            | RefundCause::LatePayment
            | RefundCause::SecondCapture
            | RefundCause::WrongAmount => false,
        }
    }
}
