//! Identifiers of the marketplace.

use handover_events::integer_id;

integer_id! {
    /// A user, buyer or seller.
    UserId,
    /// A product.
    ProductId,
    /// An order.
    OrderId,
    /// A payment.
    PaymentId,
    /// A refund.
    RefundId,
    /// A coupon.
    CouponId,
    /// An invoice.
    InvoiceId,
}
