//! `/api/v1/credit`, `/notifications`, `/shipments`, `/listings`: what the events left for the caller.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use handover_application::ports::{
    BuyerCredit, ListingEntry, Notification, Numbered, OrderSide, ShipmentTask,
};
use handover_application::use_cases;
use handover_domain::{CreditCounts, EventId, OrderId, OrderStatus, ProductId, UserId};
use serde::Serialize;

use crate::context::Caller;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::query::Parameters;
use crate::views::{rfc3339, rfc3339_or_null};

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new()
        .route("/credit", get(credit))
        .route("/notifications", get(notifications))
        .route("/shipments", get(shipments))
        .route("/listings", get(listings))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreditView {
    buyer_id: UserId,
    score: u32,
    completed: u32,
    cancelled_by_buyer: u32,
    cancelled_by_timeout: u32,
    event_id: Option<EventId>,
    #[serde(serialize_with = "rfc3339_or_null")]
    update_time: Option<DateTime<Utc>>,
}

impl CreditView {
    /// Of whom nothing was counted has the score that everybody begins with.
    fn of(buyer_id: UserId, credit: Option<BuyerCredit>) -> CreditView {
        let counts = credit.as_ref().map_or_else(CreditCounts::default, |credit| credit.counts);
        CreditView {
            buyer_id,
            score: credit.as_ref().map_or_else(|| counts.score(), |credit| credit.score),
            completed: counts.completed,
            cancelled_by_buyer: counts.cancelled_by_buyer,
            cancelled_by_timeout: counts.cancelled_by_timeout,
            update_time: credit.as_ref().map(|credit| credit.update_time),
            event_id: credit.map(|credit| credit.last_event_id),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NotificationView {
    notification_id: i64,
    #[serde(rename = "as")]
    side: &'static str,
    order_id: OrderId,
    old_status: OrderStatus,
    new_status: OrderStatus,
    #[serde(serialize_with = "rfc3339")]
    changed_at: DateTime<Utc>,
    event_id: EventId,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
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
            changed_at: effect.changed_at,
            event_id: effect.event_id,
            create_time: effect.at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShipmentView {
    shipment_id: i64,
    order_id: OrderId,
    seller_id: UserId,
    buyer_id: UserId,
    event_id: EventId,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
}

impl From<Numbered<ShipmentTask>> for ShipmentView {
    fn from(Numbered { id, effect }: Numbered<ShipmentTask>) -> ShipmentView {
        ShipmentView {
            shipment_id: id,
            order_id: effect.order,
            seller_id: effect.seller,
            buyer_id: effect.buyer,
            event_id: effect.event_id,
            create_time: effect.at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListingView {
    product_id: ProductId,
    /// The order that has it; nobody's is null.
    order_id: Option<OrderId>,
    event_id: EventId,
    #[serde(serialize_with = "rfc3339")]
    update_time: DateTime<Utc>,
}

impl From<ListingEntry> for ListingView {
    fn from(entry: ListingEntry) -> ListingView {
        ListingView {
            product_id: entry.product,
            order_id: entry.taken_by,
            event_id: entry.event_id,
            update_time: entry.update_time,
        }
    }
}

async fn credit(State(edge): State<Arc<Edge>>, Caller(context): Caller, parameters: Parameters) -> Answer {
    parameters.finish()?;
    let credit = use_cases::credit(&edge.app, &context).await?;
    Done::ok(&context.user().map(|user| CreditView::of(user, credit)))
}

async fn notifications(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    mut parameters: Parameters,
) -> Answer {
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = use_cases::notifications(&edge.app, &context, before, limit).await?;
    Done::page(page.items.into_iter().map(NotificationView::from).collect(), page.next)
}

async fn shipments(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    mut parameters: Parameters,
) -> Answer {
    let side = parameters.side();
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let side = side.unwrap_or(OrderSide::Seller);
    let page = use_cases::shipments(&edge.app, &context, side, before, limit).await?;
    Done::page(page.items.into_iter().map(ShipmentView::from).collect(), page.next)
}

async fn listings(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    mut parameters: Parameters,
) -> Answer {
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = use_cases::listings(&edge.app, &context, before, limit).await?;
    Done::page(page.items.into_iter().map(ListingView::from).collect(), page.next)
}
