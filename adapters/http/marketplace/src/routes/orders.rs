//! `/api/v1/orders`: place, list, cancel, ship, complete, pay, refund.

use std::sync::Arc;

use handover_http::body::{EmptyBody, JsonBody, NoFields, OptionalBody};
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use handover_http::views;
use handover_http::views::Time;
use handover_outbox::Page;
use marketplace::CommandContext;
use marketplace::ports::OrderSide;
use marketplace::use_cases::{CancelOrder, PlaceOrder};
use marketplace_domain::{
    Asset, CancelReason, CouponId, Money, Order, OrderActor, OrderAssets, OrderId, OrderNo, OrderStatus,
    Points, ProductId, RefundId, Shipment, UserId,
};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{payments, refunds, timeline};
use crate::bodies;
use crate::command::Command;
use crate::context::Caller;
use crate::edge::Edge;
use crate::idempotency::{Created, Updated};
use crate::openapi::{RequiredKey, kinds};
use crate::path::PathId;
use crate::refusal::RouteResult;

type OrderPage = PageView<OrderView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(place, page))
        .routes(routes!(one))
        .routes(routes!(cancel))
        .routes(routes!(ship))
        .routes(routes!(complete))
        .routes(routes!(payments::start, payments::of_order))
        .routes(routes!(payments::one))
        .routes(routes!(refunds::request, refunds::of_order))
        .routes(routes!(timeline::timeline))
}

views! {
    pub(super) OrderView as Order {
        order_id: OrderId,
        order_no: OrderNo,
        product_id: ProductId,
        buyer_id: UserId,
        seller_id: UserId,
        status: OrderStatus,
        cancel_reason: Option<CancelReason>,
        total_amount: Money,
        payable_amount: Money,
        /// Null for the seller, like the other assets of the buyer.
        coupon_id: Option<CouponId>,
        coupon_discount: Option<Money>,
        wallet_amount: Option<Money>,
        points: Option<Points>,
        /// The refund in progress; null if there is none.
        refund_id: Option<RefundId>,
        carrier: Option<String>,
        tracking_no: Option<String>,
        create_time: Time,
        pay_time: Option<Time>,
        update_time: Time,
    }
}

impl From<Order> for OrderView {
    fn from(order: Order) -> OrderView {
        let shipment = order.shipment.as_ref();
        let assets = order.assets;
        let refund_id = order.running_refund();
        OrderView {
            order_id: order.id,
            order_no: order.order_no,
            product_id: order.product,
            buyer_id: order.buyer,
            seller_id: order.seller,
            status: order.status,
            cancel_reason: order.cancel_reason,
            total_amount: order.total,
            payable_amount: order.payable,
            coupon_id: assets.coupon.map(|coupon| coupon.id),
            coupon_discount: assets.coupon.map(|coupon| coupon.discount),
            wallet_amount: assets.names(Asset::Wallet).then_some(assets.wallet),
            points: assets.names(Asset::Points).then_some(assets.points),
            refund_id,
            carrier: shipment.map(|shipment| shipment.carrier().to_owned()),
            tracking_no: shipment.map(|shipment| shipment.tracking_no().to_owned()),
            create_time: Time(order.create_time),
            pay_time: order.pay_time.map(Time),
            update_time: Time(order.update_time),
        }
    }
}

/// The order as its seller sees it: without the assets of the buyer.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct SellersOrderView(OrderView);

impl From<Order> for SellersOrderView {
    fn from(order: Order) -> SellersOrderView {
        SellersOrderView(OrderView::from(Order { assets: OrderAssets::NONE, ..order }))
    }
}

/// The order as the party that cancelled it sees it.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct CancelledOrderView(OrderView);

impl From<Order> for CancelledOrderView {
    fn from(order: Order) -> CancelledOrderView {
        CancelledOrderView(match order.cancel_reason {
            Some(CancelReason::Seller) => SellersOrderView::from(order).0,
            Some(
                CancelReason::Buyer
                | CancelReason::Timeout
                | CancelReason::AssetLockFailed
                | CancelReason::PaymentFailed,
            )
            | None => OrderView::from(order),
        })
    }
}

/// The order as this party sees it.
fn seen_by(context: &CommandContext, order: Order) -> OrderView {
    match context.user().map(|user| order.role_of(user)) {
        Some(OrderActor::Seller) => SellersOrderView::from(order).0,
        Some(
            OrderActor::Buyer
            | OrderActor::System
            | OrderActor::Gateway
            | OrderActor::Operator
            | OrderActor::Unrelated,
        )
        | None => OrderView::from(order),
    }
}

/// Places an order for a product.
///
/// The order keeps the current price of the product. Its assets are locked asynchronously; if one of them cannot be locked, the order is cancelled.
#[utoipa::path(
    post,
    path = "/",
    operation_id = "placeOrder",
    tag = "orders",
    params(RequiredKey),
    request_body = bodies::NewOrder,
    responses(
        (status = 201, description = "The order; it must be paid before its deadline", body = OrderView),
        (status = 403, description = "The product belongs to the caller"),
        (status = 404, description = "Product or coupon not found"),
        (status = 409, description = "The product is sold or off sale, or the coupon cannot be used"),
    ),
)]
async fn place(
    _: RequiredKey,
    Command(edge, call): Command<Created<OrderView>>,
    JsonBody(body): JsonBody<bodies::NewOrder>,
) -> RouteResult {
    let command = body.command(|body, _| {
        Some(PlaceOrder {
            product: body.product_id?,
            coupon: body.coupon_id?,
            wallet: body.wallet_amount?.unwrap_or(Money::ZERO),
            points: body.points?.unwrap_or(Points::ZERO),
        })
    })?;
    let order = edge.app.ordering.place(&call, command).await?;
    Done::created(&OrderView::from(order))
}

queries! {
    OrderQuery {
        r#as: OrderSide = kinds::Side, "The caller's side of the order; default: `buyer`";
        status: OrderStatus = kinds::OrderStatus, "Only orders with this status";
        order_no: OrderNo = kinds::OrderNo, "Only the order with this number, whichever side of it the caller has";
    }
}

/// Lists the caller's orders, newest first.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "orders",
    tag = "orders",
    params(OrderQuery, Paging),
    responses((status = 200, description = "A page of orders", body = OrderPage)),
)]
async fn page(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    let (OrderQuery { r#as: side, status, order_no }, before, limit) = parameters.page()?;
    if let Some(number) = order_no {
        let found = edge.app.queries.order_by_number(&context, &number).await?;
        let items = found.filter(|order| status.is_none_or(|status| order.status == status));
        let items = Vec::from_iter(items);
        return Done::page(Page { items, next: None }, |order| seen_by(&context, order));
    }
    let side = side.unwrap_or(OrderSide::Buyer);
    let page = edge.app.queries.orders(&context, side, status, before, limit).await?;
    Done::page(page, |order| seen_by(&context, order))
}

/// Returns an order.
///
/// Allowed for the buyer and for the seller.
#[utoipa::path(
    get,
    path = "/{id}",
    operation_id = "order",
    tag = "orders",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The order", body = OrderView),
        (status = 404, description = "Order not found, or the caller is not a party of it"),
    ),
)]
async fn one(
    Caller(edge, context): Caller,
    PathId(id): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let order = edge.app.queries.find_order(&context, id).await?;
    Done::ok(&seen_by(&context, order))
}

/// Cancels an unpaid order.
///
/// Allowed for the buyer and for the seller. A seller declines the order by this, and the buyer is notified.
#[utoipa::path(
    post,
    path = "/{id}/cancel",
    operation_id = "cancelOrder",
    tag = "orders",
    params(("id" = kinds::Id, Path, description = "The order")),
    request_body(content = Option<bodies::Cancellation>, content_type = "application/json"),
    responses(
        (status = 200, description = "The cancelled order", body = OrderView),
        (status = 403, description = "`offShelf` is set and the caller is not the seller"),
        (status = 404, description = "Order not found, or the caller is not a party of it"),
        (status = 409, description = "The order is not `pending`"),
    ),
)]
async fn cancel(
    Command(edge, call): Command<Updated<CancelledOrderView>>,
    PathId(order): PathId<OrderId>,
    OptionalBody(body): OptionalBody<bodies::Cancellation>,
) -> RouteResult {
    let off_shelf = body.command(|body, _| body.off_shelf)?.unwrap_or(false);
    let order = edge.app.ordering.cancel(&call, CancelOrder { order, off_shelf }).await?;
    Done::ok(&CancelledOrderView::from(order))
}

/// Marks an order as shipped.
///
/// Allowed for the seller.
#[utoipa::path(
    post,
    path = "/{id}/ship",
    operation_id = "shipOrder",
    tag = "orders",
    params(("id" = kinds::Id, Path, description = "The order")),
    request_body = bodies::Shipping,
    responses(
        (status = 200, description = "The shipped order", body = OrderView),
        (status = 403, description = "The caller is the buyer"),
        (status = 404, description = "Order not found, or the caller is not a party of it"),
        (status = 409, description = "The order is not `paid`, or a refund is in progress"),
    ),
)]
async fn ship(
    Command(edge, call): Command<Updated<SellersOrderView>>,
    PathId(id): PathId<OrderId>,
    JsonBody(body): JsonBody<bodies::Shipping>,
) -> RouteResult {
    let shipment = body.command(|body, fields| {
        let shipment = Shipment::new(body.carrier?, body.tracking_no?);
        shipment.map_or_else(|(name, error)| fields.reject(name, error), Some)
    })?;
    let order = edge.app.ordering.ship(&call, id, shipment).await?;
    Done::ok(&SellersOrderView::from(order))
}

/// Confirms that the goods were received.
///
/// Allowed for the buyer.
#[utoipa::path(
    post,
    path = "/{id}/complete",
    operation_id = "completeOrder",
    tag = "orders",
    params(("id" = kinds::Id, Path, description = "The order")),
    request_body(content = Option<EmptyBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The completed order", body = OrderView),
        (status = 403, description = "The caller is the seller"),
        (status = 404, description = "Order not found, or the caller is not a party of it"),
        (status = 409, description = "The order is not `shipped`"),
    ),
)]
async fn complete(
    Command(edge, call): Command<Updated<OrderView>>,
    PathId(id): PathId<OrderId>,
    _: NoFields,
) -> RouteResult {
    let order = edge.app.ordering.complete(&call, id).await?;
    Done::ok(&OrderView::from(order))
}
