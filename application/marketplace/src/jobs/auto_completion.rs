//! Automatic completion: completes shipped orders whose buyers did not confirm the receipt.
//!
//! **Invariant:** an order is completed by the same conditional write as by its buyer, so only one of them completes it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::Trace;
use marketplace_domain::{OrderId, OrderRefusal};
use tracing::{info, warn};

use super::AutoCompletionSettings;
use crate::events::EventSource;
use crate::metrics::COMPLETED;
use crate::ports::{DueOrder, MarketTransactor};
use crate::use_cases::{Completed, UseCaseError, complete_shipped_order};
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};
use handover_outbox::with_tx;

/// Time of shipment and id of an order.
type Position = (DateTime<Utc>, OrderId);

pub struct AutoCompletion {
    tx: MarketTransactor,
    events: EventSource,
    settings: AutoCompletionSettings,
    /// The last order of the previous batch; `None` if the next batch begins with the oldest order. Orders that cannot be
    /// completed, for instance during a refund, therefore hold back no other order.
    position: Mutex<Option<Position>>,
}

impl AutoCompletion {
    pub fn new(
        tx: MarketTransactor,
        events: EventSource,
        settings: AutoCompletionSettings,
    ) -> AutoCompletion {
        AutoCompletion { tx, events, settings, position: Mutex::default() }
    }

    /// Starts the job on the leader: the jobs of several processes would read the same orders. It also runs, without effect,
    /// if orders are never completed automatically: a job without runs would be reported as silent.
    pub fn start(self, leader: &Leader) {
        let tx = self.tx.outbox();
        Periodic::new("AutoCompletion", self.settings.interval, RunBy::Leader(leader.clone()))
            .start(&tx, self);
    }

    /// Completes one batch. Returns whether more orders may be due.
    pub async fn complete_batch(&self) -> Result<Progress, StoreError> {
        let now = self.tx.now();
        let time = self.settings.after.and_then(|after| TimeDelta::from_std(after).ok());
        let Some(shipped_by) = time.and_then(|time| now.checked_sub_signed(time)) else {
            return Ok(Progress::Done);
        };
        let limit = self.settings.batch.get();
        let position = *self.position();
        let orders = self.tx.view().await?.orders_shipped(shipped_by, position, limit).await?;
        for order in &orders {
            if self.tx.stopping().is_cancelled() {
                return Ok(Progress::Done);
            }
            match self.complete(order, shipped_by).await {
                Ok(Completed::Now) => {
                    metrics::counter!(COMPLETED).increment(1);
                    info!(code = "order.completion.completed", orderId = %order.id, "[AutoCompletion] order completed");
                }
                Ok(Completed::NotShipped(_) | Completed::NotDue | Completed::Refunding) => {}
                // As in the sweep of timeouts: the next run continues after this order.
                Err(UseCaseError::Store(error @ StoreError::Unavailable(_))) => {
                    *self.position() = Some(order.position());
                    return Err(error);
                }
                // An error with one order must not stop the run.
                Err(error) => {
                    warn!(code = "order.completion.not-completed", %error, orderId = %order.id,
                    "[AutoCompletion] order not completed; retrying in the next run")
                }
            }
        }
        let is_full = u32::try_from(orders.len()).is_ok_and(|found| found >= limit);
        let last = orders.last().filter(|_| is_full).map(DueOrder::position);
        *self.position() = last;
        Ok(if is_full { Progress::MoreDue } else { Progress::Done })
    }

    fn position(&self) -> MutexGuard<'_, Option<(DateTime<Utc>, OrderId)>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn complete(
        &self,
        order: &DueOrder,
        shipped_by: DateTime<Utc>,
    ) -> Result<Completed, UseCaseError<OrderRefusal>> {
        let trace = Trace { trace_id: format!("auto-completion-{}", order.id), traceparent: None };
        let id = (order.tenant, order.id);
        let command = complete_shipped_order::command(&self.events, "auto-completion", id, shipped_by, trace);
        with_tx(&self.tx, command, |unit, command, _| Box::pin(command.run(unit))).await
    }
}

#[async_trait]
impl Job for AutoCompletion {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        self.complete_batch().await
    }
}
