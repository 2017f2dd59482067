//! Consumer `webhooks`: writes a delivery for each event and each endpoint of the tenant that asked for its type. Its queue
//! also lets the broker route events whose type has no other consumer: it takes every event type except ORDER_TIMEOUT.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::EventType as _;
use marketplace_domain::Order;

use super::facts::{Orders, body_of, is_about_order};
use crate::consumer::{Audience, Consumer, HandlerContext, LostEffect, NoEffects, Queue, StoredEffects};
use crate::ports::{MarketView, Work};
use crate::webhook_offer::OFFER;
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::StoreError;
use handover_outbox::webhooks::{DeliveryWriter, EndpointDisabled, Offer};

/// Writes webhook deliveries.
///
/// Late events: a late event is delivered in the same way, regardless of later changes of the order. An event has at most
/// one delivery per endpoint, so an event that is applied again adds none.
pub struct Webhooks {
    offer: Arc<Offer>,
}

/// Queue of the consumer `webhooks`.
pub const WEBHOOK_QUEUE: &str = "webhook.dispatch.queue";

const BINDINGS: &[&str] = &[
    "order.created",
    "order.paid",
    "order.status.changed",
    "order.cancelled",
    "order.refunded",
    "payment.*",
    "refund.*",
    "invoice.*",
    "webhook.#",
];

impl Default for Webhooks {
    fn default() -> Webhooks {
        Webhooks { offer: Arc::clone(&OFFER) }
    }
}

#[async_trait]
impl Consumer for Webhooks {
    fn name(&self) -> &str {
        DeliveryWriter::NAME
    }

    fn event_types(&self) -> Vec<&str> {
        self.offer.types().map(|offered| offered.event_type.as_str()).collect()
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::bound_to(WEBHOOK_QUEUE, BINDINGS).selective()
    }

    fn effect(&self) -> &'static str {
        "one `webhook_deliveries` row per endpoint that asked for the event type; the role `webhooks` sends it"
    }

    fn audience(&self) -> Audience {
        Audience::Operators
    }

    async fn apply(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let orders = Orders::read(unit, events).await?;
        for event in events.iter().filter(|event| event.row.aggregate.kind != EndpointDisabled::AGGREGATE) {
            let body = body_of(event)?;
            if is_about_order(event) {
                orders.confirming(event, &body)?;
            }
        }
        let writer = DeliveryWriter {
            offer: Arc::clone(&self.offer),
            registry: Arc::clone(context.events.registry()),
            clock: Arc::clone(context.events.clock()),
            random: Arc::clone(context.events.random()),
            max_retry_count: context.events.max_retry_count(),
        };
        writer.write(unit.outbox(), events).await
    }

    async fn read_effects(
        &self,
        _: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
        Ok(NoEffects::of_orders(orders))
    }

    async fn restore(&self, _: &mut Work, _: &LostEffect<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }
}
