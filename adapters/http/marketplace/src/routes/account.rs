//! `/api/v1/credit`, `/notifications`, `/shipments`, `/listings`: the caller's data that event handlers maintain.

use std::sync::Arc;

use handover_events::EventId;
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use handover_http::views;
use handover_http::views::Time;
use handover_outbox::ports::Numbered;
use marketplace::ports::{BuyerCredit, ListedShipment, ListingEntry, Notification, OrderSide};
use marketplace_domain::{CreditCounts, OrderId, OrderStatus, ProductId, ShipmentState, UserId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::context::Caller;
use crate::edge::Edge;
use crate::openapi::kinds;
use crate::refusal::RouteResult;

type ListingPage = PageView<ListingView>;
type NotificationPage = PageView<NotificationView>;
type ShipmentPage = PageView<ShipmentView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(credit))
        .routes(routes!(notifications))
        .routes(routes!(shipments))
        .routes(routes!(listings))
}

views! {
    CreditView as Credit {
        buyer_id: UserId,
        score: u32,
        completed: u32,
        cancelled_by_buyer: u32,
        cancelled_by_timeout: u32,
        event_id: Option<EventId>,
        update_time: Option<Time>,
    }
}

impl CreditView {
    /// A buyer without a credit row has the initial score.
    fn of(buyer_id: UserId, credit: Option<BuyerCredit>) -> CreditView {
        let counts = credit.as_ref().map_or_else(CreditCounts::default, |credit| credit.counts);
        CreditView {
            buyer_id,
            score: credit.as_ref().map_or_else(|| counts.score(), |credit| credit.score),
            completed: counts.completed,
            cancelled_by_buyer: counts.cancelled_by_buyer,
            cancelled_by_timeout: counts.cancelled_by_timeout,
            update_time: credit.as_ref().map(|credit| credit.update_time).map(Time),
            event_id: credit.map(|credit| credit.last_event_id),
        }
    }
}

views! {
    NotificationView as Notification {
        notification_id: i64,
        #[serde(rename = "as")]
        side: &'static str = kinds::Side,
        order_id: OrderId,
        old_status: OrderStatus,
        new_status: OrderStatus,
        changed_at: Time,
        event_id: EventId,
        create_time: Time,
    }
}

impl From<Numbered<Notification>> for NotificationView {
    fn from(Numbered { id, effect }: Numbered<Notification>) -> NotificationView {
        NotificationView {
            notification_id: id,
            side: match effect.side {
                OrderSide::Buyer => "buyer",
                OrderSide::Seller => "seller",
            },
            order_id: effect.order,
            old_status: effect.old_status,
            new_status: effect.new_status,
            changed_at: Time(effect.changed_at),
            event_id: effect.event_id,
            create_time: Time(effect.at),
        }
    }
}

views! {
    ShipmentView as ShipmentTask {
        shipment_id: i64,
        order_id: OrderId,
        seller_id: UserId,
        buyer_id: UserId,
        /// `closed` once the order is shipped, cancelled or refunded.
        state: ShipmentState,
        /// Current status of the order; null if the order does not exist.
        order_status: Option<OrderStatus>,
        event_id: EventId,
        create_time: Time,
    }
}

impl From<Numbered<ListedShipment>> for ShipmentView {
    fn from(Numbered { id, effect }: Numbered<ListedShipment>) -> ShipmentView {
        let state = effect.state();
        let ListedShipment { task, order_status } = effect;
        ShipmentView {
            shipment_id: id,
            order_id: task.order,
            seller_id: task.seller,
            buyer_id: task.buyer,
            state,
            order_status,
            event_id: task.event_id,
            create_time: Time(task.at),
        }
    }
}

views! {
    ListingView as Listing {
        product_id: ProductId,
        /// The order that occupies the product; null if there is none.
        order_id: Option<OrderId>,
        event_id: EventId,
        update_time: Time,
    }
}

impl From<ListingEntry> for ListingView {
    fn from(entry: ListingEntry) -> ListingView {
        ListingView {
            product_id: entry.product,
            order_id: entry.taken_by,
            event_id: entry.event_id,
            update_time: Time(entry.update_time),
        }
    }
}

/// Returns the caller's credit score as a buyer.
#[utoipa::path(
    get,
    path = "/credit",
    operation_id = "credit",
    tag = "account",
    responses((status = 200, description = "The credit score and its counters", body = CreditView)),
)]
async fn credit(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    parameters.finish()?;
    let credit = edge.app.queries.credit(&context).await?;
    Done::ok(&context.user().map(|user| CreditView::of(user, credit)))
}

/// Lists the caller's notifications about orders, newest first.
#[utoipa::path(
    get,
    path = "/notifications",
    operation_id = "notifications",
    tag = "account",
    params(Paging),
    responses((status = 200, description = "A page of notifications", body = NotificationPage)),
)]
async fn notifications(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    let (before, limit) = parameters.finish_page()?;
    let page = edge.app.queries.notifications(&context, before, limit).await?;
    Done::page(page, NotificationView::from)
}

queries! {
    ShipmentQuery {
        r#as: OrderSide = kinds::Side, "The caller's side of the order; default: `seller`";
        state: ShipmentState = kinds::ShipmentState, "Only tasks in this state";
    }
}

/// Lists shipment tasks, newest first.
///
/// A task is open until its order is shipped, cancelled or refunded.
#[utoipa::path(
    get,
    path = "/shipments",
    operation_id = "shipments",
    tag = "account",
    params(ShipmentQuery, Paging),
    responses((status = 200, description = "A page of shipments", body = ShipmentPage)),
)]
async fn shipments(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    let (ShipmentQuery { r#as: side, state }, before, limit) = parameters.page()?;
    let side = side.unwrap_or(OrderSide::Seller);
    let page = edge.app.queries.shipments(&context, side, state, before, limit).await?;
    Done::page(page, ShipmentView::from)
}

/// Lists the caller's products, each with the order that occupies it.
#[utoipa::path(
    get,
    path = "/listings",
    operation_id = "listings",
    tag = "account",
    params(Paging),
    responses((status = 200, description = "A page of listings", body = ListingPage)),
)]
async fn listings(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    let (before, limit) = parameters.finish_page()?;
    let page = edge.app.queries.listings(&context, before, limit).await?;
    Done::page(page, ListingView::from)
}
