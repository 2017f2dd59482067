//! `/api/v1/orders`: buy, look, cancel, ship, complete, pay, pay back.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use handover_application::ports::OrderSide;
use handover_application::use_cases::{self, PlaceOrder};
use handover_domain::{
    Asset, CancelReason, CouponId, Money, Order, OrderId, OrderNo, OrderStatus, Points, ProductId, RefundId,
    Shipment, UserId,
};
use serde::Serialize;

use super::{payments, refunds, timeline};
use crate::body::{JsonBody, OptionalBody};
use crate::context::{Caller, KeyedCaller};
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields;
use crate::path::PathId;
use crate::query::Parameters;
use crate::views::{rfc3339, rfc3339_or_null};

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new()
        .route("/", post(place).get(page))
        .route("/{id}", get(one))
        .route("/{id}/cancel", post(cancel))
        .route("/{id}/ship", post(ship))
        .route("/{id}/complete", post(complete))
        .route("/{id}/payments", post(payments::start))
        .route("/{id}/refunds", post(refunds::request).get(refunds::of_order))
        .route("/{id}/timeline", get(timeline::timeline))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrderView {
    order_id: OrderId,
    order_no: OrderNo,
    product_id: ProductId,
    buyer_id: UserId,
    seller_id: UserId,
    status: OrderStatus,
    cancel_reason: Option<CancelReason>,
    total_amount: Money,
    payable_amount: Money,
    coupon_id: Option<CouponId>,
    coupon_discount: Option<Money>,
    wallet_amount: Option<Money>,
    points: Option<Points>,
    /// The refund that is being processed.
    refund_id: Option<RefundId>,
    carrier: Option<String>,
    tracking_no: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
    #[serde(serialize_with = "rfc3339_or_null")]
    pay_time: Option<DateTime<Utc>>,
    #[serde(serialize_with = "rfc3339")]
    update_time: DateTime<Utc>,
}

impl From<Order> for OrderView {
    fn from(order: Order) -> OrderView {
        let (shipment, assets) = (order.shipment.as_ref(), order.assets);
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
            refund_id: order.refund,
            carrier: shipment.map(|shipment| shipment.carrier().to_owned()),
            tracking_no: shipment.map(|shipment| shipment.tracking_no().to_owned()),
            create_time: order.create_time,
            pay_time: order.pay_time,
            update_time: order.update_time,
        }
    }
}

async fn place(
    State(edge): State<Arc<Edge>>,
    KeyedCaller(context): KeyedCaller,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let product = body.required("productId", fields::id);
    let coupon = body.optional("couponId", fields::id);
    let wallet = body.optional("walletAmount", fields::money);
    let points = body.optional("points", fields::points);
    let command =
        product.zip(coupon).zip(wallet.zip(points)).map(|((product, coupon), (wallet, points))| PlaceOrder {
            product,
            coupon,
            wallet: wallet.unwrap_or(Money::ZERO),
            points: points.unwrap_or(Points::ZERO),
        });
    let command = body.finish(command)?;
    let order = use_cases::place_order(&edge.app, &context, command).await?;
    Done::created(&OrderView::from(order))
}

async fn page(State(edge): State<Arc<Edge>>, Caller(context): Caller, mut parameters: Parameters) -> Answer {
    let side = parameters.side();
    let status = parameters.named("status");
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let side = side.unwrap_or(OrderSide::Buyer);
    let page = use_cases::orders(&edge.app, &context, side, status, before, limit).await?;
    Done::page(page.items.into_iter().map(OrderView::from).collect(), page.next)
}

async fn one(State(edge): State<Arc<Edge>>, Caller(context): Caller, PathId(id): PathId<OrderId>) -> Answer {
    let order = use_cases::find_order(&edge.app, &context, id).await?;
    Done::ok(&OrderView::from(order))
}

async fn cancel(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<OrderId>,
    OptionalBody(body): OptionalBody,
) -> Answer {
    body.finish(Some(()))?;
    let order = use_cases::cancel_order(&edge.app, &context, id).await?;
    Done::ok(&OrderView::from(order))
}

async fn ship(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<OrderId>,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let part = || fields::short_text(Shipment::MAX_CHARS);
    let carrier = body.required("carrier", part());
    let tracking_no = body.required("trackingNo", part());
    let shipment = carrier.zip(tracking_no).and_then(|(carrier, tracking_no)| {
        Shipment::new(carrier, tracking_no).map_or_else(|(name, error)| body.wrong(name, error), Some)
    });
    let shipment = body.finish(shipment)?;
    let order = use_cases::ship_order(&edge.app, &context, id, shipment).await?;
    Done::ok(&OrderView::from(order))
}

async fn complete(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<OrderId>,
    OptionalBody(body): OptionalBody,
) -> Answer {
    body.finish(Some(()))?;
    let order = use_cases::complete_order(&edge.app, &context, id).await?;
    Done::ok(&OrderView::from(order))
}
