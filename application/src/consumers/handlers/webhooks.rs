//! webhooks: one delivery per subscription of the tenant. There are no subscriptions yet, so each event is simply done;
//! the queue is there so that every event type has a way.

use async_trait::async_trait;
use handover_domain::EventType;

use crate::consumers::{Applied, Event, Handler, HandlerError};
use crate::ports::UnitOfWork;

/// Finds the subscriptions of an event.
///
/// Late events: deliveries are independent of each other.
pub struct Webhooks;

#[async_trait]
impl Handler for Webhooks {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn takes(&self) -> &'static [EventType] {
        &[
            EventType::OrderCreated,
            EventType::OrderPaid,
            EventType::OrderStatusChanged,
            EventType::OrderCancelled,
            EventType::OrderRefunded,
            EventType::PaymentSucceeded,
            EventType::PaymentFailed,
            EventType::RefundSucceeded,
            EventType::RefundFailed,
            EventType::InvoiceGenerated,
        ]
    }

    async fn apply(
        &self,
        _unit: &mut dyn UnitOfWork,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        Ok(events.iter().map(|_| Applied::result("no subscription")).collect())
    }
}
