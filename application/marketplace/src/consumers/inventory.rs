//! Consumer `inventory`: the listing projection of each seller.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use marketplace_domain::{EventBody, EventKind, Order, OrderFacts, PointsRules, ProductId};

use super::effects::{of_orders, rows};
use super::facts::{Facts, Orders, body_of, stale, unsupported};
use crate::consumer::{
    Audience, Consumer, Effect, EffectRow, HandlerContext, LostEffect, OrderCondition, Queue, RowDescription,
    StoredEffects, names_of,
};
use crate::ports::{EffectKind, EffectQueries, ListingChange, ListingChangeKind, MarketView, Work};
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::{Consumed, StoreError};

/// Maintains the listing projection.
///
/// Late events: a listing is computed from all changes of its product, and a release affects only its own order
/// ([`ListingEntry::after`]), so a late event of an old order cannot release the product of a newer order. An order
/// that was cancelled or refunded before its ORDER_CREATED is applied does not occupy the product (stale).
///
/// [`ListingEntry::after`]: crate::ports::ListingEntry::after
pub struct Inventory;

/// Queue of the listing projection.
pub const INVENTORY_QUEUE: &str = "inventory.update.queue";

const EVENTS: &[EventKind] = &[EventKind::OrderCreated, EventKind::OrderCancelled, EventKind::OrderRefunded];

impl Inventory {
    fn change(event: &Event, body: &EventBody, at: DateTime<Utc>) -> Result<ListingChange, HandlerError> {
        let (order, product, kind): (&OrderFacts, ProductId, ListingChangeKind);
        if let EventBody::OrderCreated(body) = body {
            (order, product, kind) = (&body.order, body.product, ListingChangeKind::Occupied);
        } else if let EventBody::OrderCancelled(body) = body {
            (order, product, kind) = (&body.order, body.product, ListingChangeKind::Released);
        } else if let EventBody::OrderRefunded(body) = body {
            (order, product, kind) = (&body.order, body.product, ListingChangeKind::Released);
        } else {
            return Err(unsupported(event));
        }
        Ok(ListingChange {
            tenant: event.row.aggregate.tenant,
            seller: order.seller_id,
            product,
            order: order.order_id,
            aggregate_seq: event.row.aggregate_seq,
            kind,
            event_id: event.row.event_id.clone(),
            at,
        })
    }
}

#[async_trait]
impl Consumer for Inventory {
    fn name(&self) -> &str {
        "inventory"
    }

    fn event_types(&self) -> Vec<&str> {
        names_of(EVENTS)
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::of_events(INVENTORY_QUEUE, EVENTS)
    }

    fn effect(&self) -> &'static str {
        "`listing_changes`, and the current listing of each seller, `listings`"
    }

    fn audience(&self) -> Audience {
        Audience::Parties
    }

    async fn apply(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let at = context.now();
        let orders = Orders::read(unit, events).await?;
        let mut facts = Facts::read(unit, EffectKind::ListingChange, events).await?;
        let mut changes = Vec::with_capacity(events.len());
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let body = body_of(event)?;
            let change = Inventory::change(event, &body, at)?;
            let order = orders.confirming(event, &body)?;
            if change.kind == ListingChangeKind::Occupied && order.is_cancelled_or_refunded() {
                applied.push(stale(order));
                continue;
            }
            if let Some(repeated) = facts.repeated(event, order, change.kind.as_str())? {
                applied.push(repeated);
                continue;
            }
            applied.push(Applied::result(match change.kind {
                ListingChangeKind::Occupied => "occupied",
                ListingChangeKind::Released => "released",
            }));
            changes.push(change);
        }
        unit.change_listings(&changes).await?;
        Ok(applied)
    }
    async fn read_effects(
        &self,
        view: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
        of_orders(
            view,
            orders,
            |view, tenant, ids| EffectQueries::listing_changes(view, tenant, ids),
            |row| row.order,
            Listings,
        )
        .await
    }

    async fn restore(&self, _: &mut Work, _: &LostEffect<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// The listing changes of one order.
struct Listings(Vec<ListingChange>);

impl StoredEffects for Listings {
    fn compare(&self, event: &EventBody, order: &Order, _: Option<&Consumed>, _: PointsRules) -> Effect {
        let is_created = matches!(event, EventBody::OrderCreated(_));
        let kind = if is_created { ListingChangeKind::Occupied } else { ListingChangeKind::Released };
        let found = self.0.iter().filter(|change| change.kind == kind).count();
        // If the order was cancelled or refunded before the event was applied, the consumer skipped the event as stale.
        let is_stale = is_created && order.is_cancelled_or_refunded();
        rows(EffectKind::ListingChange, found, if is_stale { found.min(1) } else { 1 })
    }

    fn rows(&self) -> Vec<EffectRow> {
        let row = |change: &ListingChange| {
            let product = change.product;
            let (condition, text) = match change.kind {
                ListingChangeKind::Occupied => {
                    (OrderCondition::Exists, format!("product {product} removed from the seller's listing"))
                }
                ListingChangeKind::Released => {
                    (OrderCondition::Undone, format!("product {product} returned to the seller's listing"))
                }
            };
            EffectRow {
                table: EffectKind::ListingChange.table(),
                fact: change.kind.as_str().to_owned(),
                event_id: Some(change.event_id.clone()),
                at: change.at,
                condition,
                description: RowDescription::Text(text),
            }
        };
        self.0.iter().map(row).collect()
    }
}
