//! Refunds: requested by an operator, or by buyer or seller of the order, settled by the gateway's signed callback.

use std::sync::Arc;

use handover_http::body::JsonBody;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use handover_http::views;
use handover_http::views::Time;
use handover_outbox::Page;
use marketplace::use_cases::{RequestRefund, SettleRefund};
use marketplace_domain::{
    Currency, InvoiceId, Money, OrderId, PaymentId, Reference, Refund, RefundId, RefundStatus, ReportKind,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::bodies;
use crate::body::SignedBody;
use crate::callback::reported_name;
use crate::command::Command;
use crate::context::{Caller, Gateway};
use crate::edge::Edge;
use crate::idempotency::Created;
use crate::openapi::{Signed, kinds};
use crate::path::PathId;
use crate::refusal::RouteResult;

type RefundPage = PageView<RefundView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(callback))
}

views! {
    pub(super) RefundView as Refund {
        refund_id: RefundId,
        /// Name of the current attempt towards the gateway; null for a refund of an earlier version.
        reference: Option<Reference>,
        /// Number of the current attempt; an operator's retry begins a new one.
        attempt: u32,
        /// Null for the refund of an invoice.
        order_id: Option<OrderId>,
        /// Null for the refund of an order.
        invoice_id: Option<InvoiceId>,
        payment_id: PaymentId,
        amount: Money,
        currency: Currency,
        status: RefundStatus,
        reason: String,
        create_time: Time,
    }
}

impl From<Refund> for RefundView {
    fn from(refund: Refund) -> RefundView {
        RefundView {
            refund_id: refund.id,
            reference: refund.reference,
            attempt: refund.attempt,
            order_id: refund.of.order(),
            invoice_id: refund.of.invoice(),
            payment_id: refund.payment,
            amount: refund.amount,
            currency: refund.currency,
            status: refund.status,
            reason: refund.reason,
            create_time: Time(refund.create_time),
        }
    }
}

/// Requests the refund of an order.
///
/// Allowed for the buyer and the seller, until the order is shipped. A seller declines the order by this; when the refund succeeds, the
/// buyer is notified.
#[utoipa::path(
    post,
    path = "/{id}/refunds",
    operation_id = "refundOrder",
    tag = "refunds",
    params(("id" = kinds::Id, Path, description = "The order")),
    request_body = bodies::NewRefund,
    responses(
        (status = 201, description = "The refund, which is in `PROCESSING`", body = RefundView),
        (status = 403, description = "`offShelf` is set and the caller is not the seller"),
        (status = 404, description = "Order not found, or not visible to the caller"),
        (status = 409, description = "The order is not `paid`, or there is nothing to refund"),
    ),
)]
pub(super) async fn request(
    Command(edge, call): Command<Created<RefundView>>,
    PathId(order): PathId<OrderId>,
    JsonBody(body): JsonBody<bodies::NewRefund>,
) -> RouteResult {
    let command = body.command(|body, _| {
        Some(RequestRefund { order, reason: body.reason?, off_shelf: body.off_shelf?.unwrap_or(false) })
    })?;
    let refund = edge.app.payments.request_refund(&call, command).await?;
    Done::created(&RefundView::from(refund))
}

/// Lists the refunds of an order.
///
/// Returns all refunds on one page, because an order has few. The reason of a refund that an operator requested is masked.
#[utoipa::path(
    get,
    path = "/{id}/refunds",
    operation_id = "refunds",
    tag = "refunds",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The refunds", body = RefundPage),
        (status = 404, description = "Order not found, or not visible to the caller"),
    ),
)]
pub(super) async fn of_order(
    Caller(edge, context): Caller,
    PathId(order): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let refunds = edge.app.queries.refunds(&context, order).await?;
    Done::page(Page { items: refunds, next: None }, RefundView::from)
}

/// Reports the result of a refund.
///
/// Called by the payment gateway. Every report with a valid signature is recorded; a repeated report gets the same response and
/// changes nothing. A report that contradicts an earlier one is recorded for an operator and gets the current refund.
#[utoipa::path(
    post,
    path = "/callback",
    operation_id = "reportRefund",
    tag = "gateway",
    security(("gatewaySignature" = [])),
    params(Signed),
    request_body = bodies::RefundReport,
    responses(
        (status = 200, description = "The refund", body = RefundView),
        (status = 404, description = "No refund has this reference or id, or they belong to different refunds"),
    ),
)]
async fn callback(gateway: Gateway, body: SignedBody<bodies::RefundReport>) -> RouteResult {
    let body_hash = body.hash.clone();
    let command = body.command(&gateway, ReportKind::Refund, |body, fields| {
        let refund = reported_name(&gateway.0, body.reference?, body.refund_id?, "refundId", fields);
        let transaction_id = body.gateway_txn_id?;
        Some(SettleRefund { refund: refund?, result: body.result?, transaction_id, body_hash })
    });
    let command = command.await?;
    let Gateway(edge, context) = gateway;
    let refund = edge.app.payments.settle_refund(&context, command).await?;
    Done::ok(&RefundView::from(refund))
}
