//! `/api/v1/ops/orders`: operators find orders, see what an order waits for and what happened to it, and refund it.

use handover_events::TenantId;
use handover_http::body::JsonBody;
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::refusal::Refusal;
use handover_http::response::{Done, PageView};
use handover_outbox::Page;
use marketplace::use_cases::RequestRefund;
use marketplace::use_cases::operations::{FindOrders, OrderSearch};
use marketplace_domain::{OrderId, OrderNo, PaymentId, Reference, UserId};

use crate::bodies;
use crate::command::Command;
use crate::context::Operator;
use crate::idempotency::Created;
use crate::messages;
use crate::openapi::kinds;
use crate::path::{PathId, PathPayment};
use crate::refusal::{RouteResult, not_found};
use crate::views::{FoundOrderView, FoundPaymentView, OrderDetailsView, RefundDetailsView, TimelineView};

type FoundOrderPage = PageView<FoundOrderView>;
type RefundDetailsPage = PageView<RefundDetailsView>;

queries! {
    OrderSearchQuery {
        order_no: OrderNo = kinds::OrderNo, "The order with this number";
        buyer_id: UserId = kinds::Id, "Orders of this buyer, in `tenantId` or else the caller's tenant";
        payment_id: PaymentId = kinds::Id, "The order of this payment";
        reference: Reference = kinds::Reference, "The order of the payment or refund with this reference";
        transaction_id: String = kinds::TransactionId, "The order that this transaction of the gateway paid";
        tenant_id: TenantId = kinds::Id, "Only orders of this tenant";
    }
}

/// Finds orders by one of the values that a user or the gateway names, newest first.
///
/// Exactly one of `orderNo`, `buyerId`, `paymentId`, `reference` and `transactionId` is required.
#[utoipa::path(
    get,
    path = "/orders",
    operation_id = "findOrders",
    tag = "operators",
    params(OrderSearchQuery, Paging),
    responses(
        (status = 200, description = "A page of orders", body = FoundOrderPage),
        (status = 404, description = "`tenantId` is a tenant that the caller cannot see"),
    ),
)]
pub(super) async fn find(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    let (query, before, limit) = parameters.page::<OrderSearchQuery, _>()?;
    let given = [
        query.order_no.map(OrderSearch::Number),
        query.buyer_id.map(OrderSearch::Buyer),
        query.payment_id.map(OrderSearch::Payment),
        query.reference.map(OrderSearch::Reference),
        query.transaction_id.map(OrderSearch::Transaction),
    ];
    let mut given = given.into_iter().flatten();
    let (Some(search), None) = (given.next(), given.next()) else {
        return Err(Refusal::field("query", messages::ONE_SEARCH).into());
    };
    let query = FindOrders { search, tenant: query.tenant_id, before, limit };
    let page = edge.app.operations.find_orders(&context, query).await?;
    Done::page(page, FoundOrderView::from)
}

/// Returns an order with its payments and refunds, and the time of its automatic change.
#[utoipa::path(
    get,
    path = "/orders/{id}",
    operation_id = "orderDetails",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The order", body = OrderDetailsView),
        (status = 404, description = "Order not found in a tenant accessible to the caller"),
    ),
)]
pub(super) async fn one(
    Operator(edge, context): Operator,
    PathId(id): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let details = edge.app.operations.show_order(&context, id).await?;
    Done::ok(&OrderDetailsView::from(details))
}

/// Returns everything that happened to an order, with its webhooks, the reports of the gateway, and errors.
#[utoipa::path(
    get,
    path = "/orders/{id}/timeline",
    operation_id = "orderTimeline",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The entries in chronological order", body = TimelineView),
        (status = 404, description = "Order not found in a tenant accessible to the caller"),
    ),
)]
pub(super) async fn timeline(
    Operator(edge, context): Operator,
    PathId(id): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let timeline = edge.app.operations.timeline(&context, None, id).await?;
    Done::ok(&TimelineView::from(timeline))
}

/// Requests the refund of an order.
///
/// Allowed until the order is shipped. If a refund is in progress, it is returned. Buyer and seller do not see the reason.
#[utoipa::path(
    post,
    path = "/orders/{id}/refunds",
    operation_id = "refundOrderAsOperator",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The order")),
    request_body = bodies::Decision,
    responses(
        (status = 201, description = "The refund, which is in `PROCESSING`", body = RefundDetailsView),
        (status = 404, description = "Order not found in a tenant accessible to the caller"),
        (status = 409, description = "The order is not `paid`, or there is nothing to refund"),
    ),
)]
pub(super) async fn refund(
    _: Operator,
    Command(edge, call): Command<Created<RefundDetailsView>>,
    PathId(order): PathId<OrderId>,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let command = RequestRefund { order, reason: reason.as_str().to_owned(), off_shelf: false };
    let refund = edge.app.payments.request_refund(&call, command).await?;
    Done::created(&RefundDetailsView::from(refund))
}

/// Returns a payment of an order, with the reports of the gateway.
#[utoipa::path(
    get,
    path = "/orders/{id}/payments/{paymentId}",
    operation_id = "paymentOfOrder",
    tag = "operators",
    params(
        ("id" = kinds::Id, Path, description = "The order"),
        ("paymentId" = kinds::Id, Path, description = "The payment"),
    ),
    responses(
        (status = 200, description = "The payment", body = FoundPaymentView),
        (status = 404, description = "The order has no such payment in a tenant accessible to the caller"),
    ),
)]
pub(super) async fn payment(
    Operator(edge, context): Operator,
    PathPayment { order, payment }: PathPayment,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let found = edge.app.operations.find_payment(&context, payment).await?;
    if found.payment.of.order() != Some(order) {
        return Err(not_found("payment").into());
    }
    Done::ok(&FoundPaymentView::from(found))
}

/// Lists the refunds of an order, on one page, because an order has few.
#[utoipa::path(
    get,
    path = "/orders/{id}/refunds",
    operation_id = "refundsOfOrder",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The refunds", body = RefundDetailsPage),
        (status = 404, description = "Order not found in a tenant accessible to the caller"),
    ),
)]
pub(super) async fn refunds(
    Operator(edge, context): Operator,
    PathId(order): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let details = edge.app.operations.show_order(&context, order).await?;
    Done::page(Page { items: details.refunds, next: None }, RefundDetailsView::from)
}
