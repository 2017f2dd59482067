//! Consumer `webhooks`: reserved for deliveries to the webhook subscriptions of the tenant. Subscriptions are not
//! implemented yet, so the consumer records each event without effect. Its queue exists so that the broker can also
//! route events whose type has no other consumer: it takes every event type except ORDER_TIMEOUT.

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{EventKind, Order};

use super::facts::{Orders, body_of, is_about_order};
use crate::consumer::{Audience, Consumer, HandlerContext, LostEffect, NoEffects, Queue, StoredEffects};
use crate::ports::{MarketView, Work};
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::StoreError;

/// Records each event without effect, because there are no subscriptions yet.
///
/// Late events: a late event is recorded in the same way, regardless of later changes of the order.
pub struct Webhooks;

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
];

#[async_trait]
impl Consumer for Webhooks {
    fn name(&self) -> &str {
        "webhooks"
    }

    fn event_types(&self) -> Vec<&str> {
        let events = EventKind::ALL.iter().filter(|event| event.is_ordered());
        events.map(|event| event.as_str()).collect()
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::bound_to(WEBHOOK_QUEUE, BINDINGS)
    }

    fn effect(&self) -> &'static str {
        "no effect yet: there are no subscriptions"
    }

    fn audience(&self) -> Audience {
        Audience::Parties
    }

    async fn apply(
        &self,
        _: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let orders = Orders::read(unit, events).await?;
        for event in events {
            let body = body_of(event)?;
            if is_about_order(event) {
                orders.confirming(event, &body)?;
            }
        }
        Ok(events.iter().map(|_| Applied::result("no subscription")).collect())
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
