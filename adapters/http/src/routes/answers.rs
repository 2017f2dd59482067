//! What a command did, as its route shows it: the answer that is kept for repeats of the request.

use marketplace::idempotency::Answered;

use super::ops::gifts::{GiftView, IssuedView};
use super::orders::OrderView;
use super::payments::PaymentView;
use super::products::ProductView;
use super::refunds::RefundView;

/// The data of the answer.
pub(crate) fn answered(answered: Answered<'_>) -> Result<String, serde_json::Error> {
    match answered {
        Answered::Order(order) => serde_json::to_string(&OrderView::from(order.clone())),
        Answered::Product(product) => serde_json::to_string(&ProductView::from(product.clone())),
        Answered::Payment(payment) => serde_json::to_string(&PaymentView::from(payment.clone())),
        Answered::Refund(refund) => serde_json::to_string(&RefundView::from(refund.clone())),
        Answered::Operation(operation) => serde_json::to_string(&GiftView::from(operation.clone())),
        Answered::Coupon(coupon) => serde_json::to_string(&IssuedView::at(coupon.create_time, coupon)),
    }
}
