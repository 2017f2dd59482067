//! Sweep over overdue orders: closes orders whose timeout message is late or lost.

use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{OrderId, OrderRefusal};
use tracing::{info, warn};

use super::TimeoutSettings;
use crate::consumer::HandlerContext;
use crate::ports::MarketTransactor;
use crate::use_cases::{Closed, UseCaseError, close_overdue_order};
use handover_events::Trace;
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};
use handover_outbox::with_tx;

pub struct TimeoutSweep {
    pub tx: MarketTransactor,
    pub handlers: HandlerContext,
    pub settings: TimeoutSettings,
}

impl TimeoutSweep {
    /// Starts the sweep on the leader: the sweeps of several processes would read the same overdue orders.
    pub fn start(self, leader: &Leader) {
        let tx = self.tx.outbox();
        Periodic::new("OrderTimeoutSweep", self.settings.sweep_interval, RunBy::Leader(leader.clone()))
            .start(&tx, self);
    }

    /// Closes one batch. Returns the number of orders that this call closed.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let cutoff = self.handlers.overdue_cutoff(self.tx.now());
        let overdue = self.tx.view().await?.orders_overdue(cutoff, self.settings.sweep_batch.get()).await?;
        let mut closed = 0;
        for (tenant, order) in overdue {
            if self.tx.stopping().is_cancelled() {
                break;
            }
            match self.close(tenant, order).await {
                Ok(Closed::Now) => {
                    closed += 1;
                    info!(code = "order.timeout.closed", orderId = %order, "[OrderTimeoutSweep] overdue order closed");
                }
                Ok(Closed::NotPending(_) | Closed::NotOverdue) => {}
                // An error with one order must not stop the sweep.
                Err(error) => {
                    warn!(code = "order.timeout.not-closed", %error, orderId = %order, "[OrderTimeoutSweep] order not closed; retrying in the next run")
                }
            }
        }
        Ok(closed)
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
        let is_full = self.sweep().await? >= u64::from(self.settings.sweep_batch.get());
        Ok(if is_full { Progress::MoreDue } else { Progress::Done })
    }
}
