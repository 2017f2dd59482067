//! Consumer `order-timeout`: closes an order that was not paid in time. The timeout sweep does the same for
//! overdue rows of the orders table; the conditional write of the order decides which of the two closes it.

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{EventBody, EventKind, Order};

use super::facts::{body_of, unsupported};
use crate::consumer::{
    Audience, Consumer, HandlerContext, LostEffect, NoEffects, Queue, StoredEffects, names_of,
};
use crate::error::UseCaseError;
use crate::ports::{MarketView, Work};
use crate::queues::{TIMEOUT_KEY, timeout_delay_queue};
use crate::use_cases::close_overdue_order::{self, Closed};
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::StoreError;

/// Closes overdue orders.
///
/// Late events: the status of the order decides, so a timeout can be applied at any time.
pub struct OrderTimeoutConsumer;

const NAME: &str = "order-timeout";

/// Queue of expired order timeouts.
pub const TIMEOUT_QUEUE: &str = "order.timeout.queue";

const EVENTS: &[EventKind] = &[EventKind::OrderTimeout];

#[async_trait]
impl Consumer for OrderTimeoutConsumer {
    fn name(&self) -> &str {
        NAME
    }

    fn event_types(&self) -> Vec<&str> {
        names_of(EVENTS)
    }

    fn queue(&self, pending_timeout: Duration) -> Queue {
        let delay = Some(timeout_delay_queue(pending_timeout));
        Queue { delay, ..Queue::bound_to(TIMEOUT_QUEUE, &[TIMEOUT_KEY]) }
    }

    fn effect(&self) -> &'static str {
        "closes the unpaid order"
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
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let EventBody::OrderTimeout(timeout) = body_of(event)? else { return Err(unsupported(event)) };
            let command = close_overdue_order::command(
                context,
                NAME,
                event.row.aggregate.tenant,
                timeout.order.order_id,
                event.row.trace(),
            )
            .in_request_of(Some(&event.row));
            let closed = command.run(unit).await.map_err(|error| match error {
                UseCaseError::Store(error) => HandlerError::Store(error),
                // A retry cannot create an order that does not exist.
                UseCaseError::NotFound { .. } => HandlerError::Unrecoverable(error.to_string()),
                UseCaseError::NotAllowed(_)
                | UseCaseError::Refused(_)
                | UseCaseError::KeyReused
                | UseCaseError::InProgress
                | UseCaseError::Replayed(_) => HandlerError::Recoverable(error.to_string()),
            })?;
            applied.push(Applied::result(match closed {
                Closed::Now => "order closed".to_owned(),
                Closed::NotPending(status) => format!("order is {status}"),
                Closed::NotOverdue => "not overdue yet; the sweep closes it later".to_owned(),
            }));
        }
        Ok(applied)
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
