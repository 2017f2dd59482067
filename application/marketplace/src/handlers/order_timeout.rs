//! Consumer `order-timeout`: closes an order that was not paid in time. The timeout sweep does the same for
//! overdue rows of the orders table; the conditional write of the order decides which of the two closes it.

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{EventBody, EventType};

use super::facts::{body_of, unsupported};
use crate::App;
use crate::ports::Work;
use crate::use_cases::{Closed, UseCaseError, close_overdue_order};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError};

/// Closes overdue orders.
///
/// Late events: the status of the order decides, so a timeout can be applied at any time.
pub struct OrderTimeoutHandler {
    app: App,
}

impl OrderTimeoutHandler {
    pub fn new(app: App) -> OrderTimeoutHandler {
        OrderTimeoutHandler { app }
    }
}

#[async_trait]
impl Handler<Work> for OrderTimeoutHandler {
    fn name(&self) -> &'static str {
        "order-timeout"
    }

    fn event_types(&self) -> &'static [&'static str] {
        const { &[EventType::OrderTimeout.as_str()] }
    }

    fn delay(&self) -> Duration {
        self.app.rules.pending_timeout
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let EventBody::OrderTimeout(timeout) = body_of(event)? else { return Err(unsupported(event)) };
            let command = close_overdue_order::command(
                &self.app,
                self.name(),
                event.row.aggregate.tenant,
                timeout.order.order_id,
                event.row.trace(),
            );
            let closed = command.run(unit).await.map_err(|error| match error {
                UseCaseError::Store(error) => HandlerError::Store(error),
                // A retry cannot create an order that does not exist.
                UseCaseError::NotFound { .. } => HandlerError::Unrecoverable(error.to_string()),
                UseCaseError::NotAllowed(_)
                | UseCaseError::Refused(_)
                | UseCaseError::KeyReused
                | UseCaseError::InProgress => HandlerError::Recoverable(error.to_string()),
            })?;
            applied.push(Applied::result(match closed {
                Closed::Now => "order closed".to_owned(),
                Closed::NotPending(status) => format!("order is {status}"),
                Closed::NotOverdue => "not overdue yet; the sweep closes it later".to_owned(),
            }));
        }
        Ok(applied)
    }
}
