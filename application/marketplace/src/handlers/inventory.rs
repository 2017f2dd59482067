//! Consumer `inventory`: the listing projection of each seller.

use async_trait::async_trait;
use marketplace_domain::{EventBody, EventType, OrderFacts, ProductId};

use super::facts::{Facts, Orders, body_of, stale, unsupported};
use crate::App;
use crate::ports::{EffectKind, ListingChange, ListingChangeKind, Work};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError};

/// Maintains the listing projection.
///
/// Late events: a listing is computed from all changes of its product, and a release affects only its own order
/// ([`ListingEntry::after`]), so a late event of an old order cannot release the product of a newer order. An order
/// that was cancelled or refunded before its ORDER_CREATED is applied does not occupy the product (stale).
///
/// [`ListingEntry::after`]: crate::ports::ListingEntry::after
pub struct Inventory {
    app: App,
}

impl Inventory {
    pub fn new(app: App) -> Inventory {
        Inventory { app }
    }

    fn change(&self, event: &Event, body: &EventBody) -> Result<ListingChange, HandlerError> {
        let (order, product, kind): (&OrderFacts, ProductId, ListingChangeKind) = match body {
            EventBody::OrderCreated(body) => (&body.order, body.product, ListingChangeKind::Occupied),
            EventBody::OrderCancelled(body) => (&body.order, body.product, ListingChangeKind::Released),
            EventBody::OrderRefunded(body) => (&body.order, body.product, ListingChangeKind::Released),
            EventBody::OrderPaid(_)
            | EventBody::OrderStatusChanged(_)
            | EventBody::OrderTimeout(_)
            | EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => return Err(unsupported(event)),
        };
        Ok(ListingChange {
            tenant: event.row.aggregate.tenant,
            seller: order.seller_id,
            product,
            order: order.order_id,
            aggregate_seq: event.row.aggregate_seq,
            kind,
            event_id: event.row.event_id.clone(),
            at: self.app.now(),
        })
    }
}

#[async_trait]
impl Handler<Work> for Inventory {
    fn name(&self) -> &'static str {
        "inventory"
    }

    fn event_types(&self) -> &'static [&'static str] {
        const {
            &[
                EventType::OrderCreated.as_str(),
                EventType::OrderCancelled.as_str(),
                EventType::OrderRefunded.as_str(),
            ]
        }
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let orders = Orders::read(unit, events).await?;
        let mut facts = Facts::read(unit, EffectKind::ListingChange, events).await?;
        let mut changes = Vec::with_capacity(events.len());
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let body = body_of(event)?;
            let change = self.change(event, &body)?;
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
}
