//! Consumer `webhooks`: reserved for deliveries to the webhook subscriptions of the tenant. Subscriptions are not
//! implemented yet, so the consumer records each event without effect. Its queue exists so that the broker can also
//! route events whose type has no other consumer.

use async_trait::async_trait;
use marketplace_domain::EventType;

use super::facts::{Orders, body_of, is_about_order};
use crate::ports::Work;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError};

/// Records each event without effect, because there are no subscriptions yet.
///
/// Late events: a late event is recorded in the same way, regardless of later changes of the order.
pub struct Webhooks;

#[async_trait]
impl Handler<Work> for Webhooks {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn event_types(&self) -> &'static [&'static str] {
        const {
            &[
                EventType::OrderCreated.as_str(),
                EventType::OrderPaid.as_str(),
                EventType::OrderStatusChanged.as_str(),
                EventType::OrderCancelled.as_str(),
                EventType::OrderRefunded.as_str(),
                EventType::PaymentSucceeded.as_str(),
                EventType::PaymentFailed.as_str(),
                EventType::RefundSucceeded.as_str(),
                EventType::RefundFailed.as_str(),
                EventType::InvoiceGenerated.as_str(),
            ]
        }
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let orders = Orders::read(unit, events).await?;
        for event in events {
            let body = body_of(event)?;
            if is_about_order(event) {
                orders.confirming(event, &body)?;
            }
        }
        Ok(events.iter().map(|_| Applied::result("no subscription")).collect())
    }
}
