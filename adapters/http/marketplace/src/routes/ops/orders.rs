//! `/api/v1/ops/orders`: operators find orders, and see what an order waits for.

use handover_events::TenantId;
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::refusal::Refusal;
use handover_http::response::{Done, PageView};
use marketplace::use_cases::operations::{FindOrders, OrderSearch};
use marketplace_domain::{OrderId, OrderNo, PaymentId, Reference, UserId};

use crate::context::Operator;
use crate::messages;
use crate::openapi::kinds;
use crate::path::PathId;
use crate::refusal::RouteResult;
use crate::views::{FoundOrderView, OrderDetailsView};

type FoundOrderPage = PageView<FoundOrderView>;

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
