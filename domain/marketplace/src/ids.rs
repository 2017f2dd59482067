//! Identifiers of the marketplace.

use handover_events::integer_id;

integer_id! {
    /// A user: buyer or seller.
    UserId,
    ProductId,
    OrderId,
    PaymentId,
    RefundId,
    CouponId,
    InvoiceId,
}
