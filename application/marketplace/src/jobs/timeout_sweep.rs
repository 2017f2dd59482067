//! Sweep over overdue orders: closes orders whose timeout message is late or lost.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{OrderId, OrderRefusal};
use tracing::{info, warn};

use super::TimeoutSettings;
use crate::consumer::HandlerContext;
use crate::ports::{DueOrder, MarketTransactor};
use crate::use_cases::{Closed, UseCaseError, close_overdue_order};
use handover_events::Trace;
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};
use handover_outbox::with_tx;

/// Time of creation and id of an order.
type Position = (DateTime<Utc>, OrderId);

pub struct TimeoutSweep {
    tx: MarketTransactor,
    handlers: HandlerContext,
    settings: TimeoutSettings,
    /// The last order of the previous batch; `None` if the next batch begins with the oldest order. Orders that cannot be
    /// closed therefore hold back no other order.
    position: Mutex<Option<Position>>,
}

impl TimeoutSweep {
    pub fn new(tx: MarketTransactor, handlers: HandlerContext, settings: TimeoutSettings) -> TimeoutSweep {
        TimeoutSweep { tx, handlers, settings, position: Mutex::default() }
    }

    /// Starts the sweep on the leader: the sweeps of several processes would read the same overdue orders.
    pub fn start(self, leader: &Leader) {
        let tx = self.tx.outbox();
        Periodic::new("OrderTimeoutSweep", self.settings.sweep_interval, RunBy::Leader(leader.clone()))
            .start(&tx, self);
    }

    /// Closes one batch. Returns the number of orders that this call closed.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let cutoff = self.handlers.overdue_cutoff(self.tx.now());
        let limit = self.settings.sweep_batch.get();
        let after = *self.position();
        let overdue = self.tx.view().await?.orders_overdue(cutoff, after, limit).await?;
        let mut closed = 0;
        for order in &overdue {
            if self.tx.stopping().is_cancelled() {
                return Ok(closed);
            }
            match self.close(order.tenant, order.id).await {
                Ok(Closed::Now) => {
                    closed += 1;
                    info!(code = "order.timeout.closed", orderId = %order.id, "[OrderTimeoutSweep] overdue order closed");
                }
                Ok(Closed::NotPending(_) | Closed::NotOverdue) => {}
                // During an outage each of the others would fail as well. The next run continues after this order, so that a limit
                // which it alone exceeds does not hold back the others.
                Err(UseCaseError::Store(error @ StoreError::Unavailable(_))) => {
                    *self.position() = Some(order.position());
                    return Err(error);
                }
                // An error with one order must not stop the sweep.
                Err(error) => {
                    warn!(code = "order.timeout.not-closed", %error, orderId = %order.id, "[OrderTimeoutSweep] order not closed; retrying in the next run")
                }
            }
        }
        let is_full = u32::try_from(overdue.len()).is_ok_and(|found| found >= limit);
        *self.position() = overdue.last().filter(|_| is_full).map(DueOrder::position);
        Ok(closed)
    }

    fn position(&self) -> MutexGuard<'_, Option<Position>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn close(&self, tenant: TenantId, order: OrderId) -> Result<Closed, UseCaseError<OrderRefusal>> {
        let trace = Trace { trace_id: format!("sweep-{order}"), traceparent: None };
        let command =
            close_overdue_order::command(&self.handlers, "order-timeout-sweep", tenant, order, trace);
        with_tx(&self.tx, command, |unit, command, _| {
            Box::pin(async move { command.in_request_of_order(unit).await?.run(unit).await })
        })
        .await
    }
}

#[async_trait]
impl Job for TimeoutSweep {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        self.sweep().await?;
        let is_at_end = self.position().is_none();
        Ok(if is_at_end { Progress::Done } else { Progress::MoreDue })
    }
}
