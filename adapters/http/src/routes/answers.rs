//! Serializes the results of commands for stored responses (idempotency keys).

use marketplace::idempotency::Answered;

use super::ops::gifts::{AssetGrantView, IssuedCouponView};
use super::orders::OrderView;
use super::payments::PaymentView;
use super::products::ProductView;
use super::refunds::RefundView;

/// `data` of the stored response; the same view as in the route's response.
pub(crate) fn response_data(result: Answered<'_>) -> Result<String, serde_json::Error> {
    match result {
        Answered::Order(order) => serde_json::to_string(&OrderView::from(order.clone())),
        Answered::Product(product) => serde_json::to_string(&ProductView::from(product.clone())),
        Answered::Payment(payment) => serde_json::to_string(&PaymentView::from(payment.clone())),
        Answered::Refund(refund) => serde_json::to_string(&RefundView::from(refund.clone())),
        Answered::Operation(operation) => serde_json::to_string(&AssetGrantView::from(operation.clone())),
        Answered::Coupon(coupon) => serde_json::to_string(&IssuedCouponView::at(coupon.create_time, coupon)),
    }
}
