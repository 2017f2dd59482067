//! Serializes the results of commands for stored responses (idempotency keys).

use marketplace::idempotency::CommandResult;

use super::ops::asset_grants::{AssetGrantView, IssuedCouponView};
use super::orders::OrderView;
use super::payments::PaymentView;
use super::products::ProductView;
use super::refunds::RefundView;
use crate::views::{GatewayReportView, RefundDetailsView};

/// `data` of the stored response; the same view as in the route's response.
pub(crate) fn response_data(result: CommandResult<'_>) -> Result<String, serde_json::Error> {
    match result {
        CommandResult::Order(order) => serde_json::to_string(&OrderView::from(order.clone())),
        CommandResult::Product(product) => serde_json::to_string(&ProductView::from(product.clone())),
        CommandResult::Payment(payment) => serde_json::to_string(&PaymentView::from(payment.clone())),
        CommandResult::Refund(refund) => serde_json::to_string(&RefundView::from(refund.clone())),
        CommandResult::Operation(operation) => {
            serde_json::to_string(&AssetGrantView::from(operation.clone()))
        }
        CommandResult::Coupon(coupon) => {
            serde_json::to_string(&IssuedCouponView::at(coupon.create_time, coupon))
        }
        CommandResult::GatewayReport(report) => {
            serde_json::to_string(&GatewayReportView::from(report.clone()))
        }
    }
}

/// Like [`response_data`], for the operator routes, which show operators more of a refund.
pub(crate) fn operator_response_data(result: CommandResult<'_>) -> Result<String, serde_json::Error> {
    match result {
        CommandResult::Refund(refund) => serde_json::to_string(&RefundDetailsView::from(refund.clone())),
        CommandResult::Order(_)
        | CommandResult::Product(_)
        | CommandResult::Payment(_)
        | CommandResult::Operation(_)
        | CommandResult::Coupon(_)
        | CommandResult::GatewayReport(_) => response_data(result),
    }
}
