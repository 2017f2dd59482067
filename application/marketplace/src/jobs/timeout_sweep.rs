//! Sweep over overdue orders: closes orders whose timeout message is late or lost.

use handover_events::TenantId;
use marketplace_domain::{OrderId, OrderRefusal};
use tracing::{info, warn};

use super::TimeoutSettings;
use crate::App;
use crate::use_cases::{Closed, UseCaseError, close_overdue_order};
use handover_events::Trace;
use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;

pub struct TimeoutSweep {
    app: App,
    settings: TimeoutSettings,
}

impl TimeoutSweep {
    pub fn new(app: App, settings: TimeoutSettings) -> TimeoutSweep {
        TimeoutSweep { app, settings }
    }

    /// Runs immediately and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            match self.sweep().await {
                Ok(closed) if closed >= u64::from(self.settings.sweep_batch.get()) => continue,
                Ok(_) => {}
                Err(error) => warn!(%error, "[OrderTimeoutSweep] run failed; retrying at the next interval"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.settings.sweep_interval) => {}
            }
        }
    }

    /// Closes one batch. Returns the number of orders that this call closed.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let cutoff = self.app.rules.overdue_cutoff(self.app.now());
        let overdue = self.app.view().await?.orders_overdue(cutoff, self.settings.sweep_batch.get()).await?;
        let mut closed = 0;
        for (tenant, order) in overdue {
            if self.app.tx.tasks.stopping().is_cancelled() {
                break;
            }
            match self.close(tenant, order).await {
                Ok(Closed::Now) => {
                    closed += 1;
                    info!(orderId = %order, "[OrderTimeoutSweep] overdue order closed");
                }
                Ok(Closed::NotPending(_) | Closed::NotOverdue) => {}
                // An error with one order must not stop the sweep.
                Err(error) => {
                    warn!(%error, orderId = %order, "[OrderTimeoutSweep] order not closed; retrying in the next run")
                }
            }
        }
        Ok(closed)
    }

    async fn close(&self, tenant: TenantId, order: OrderId) -> Result<Closed, UseCaseError<OrderRefusal>> {
        let trace = Trace { trace_id: format!("sweep-{order}"), traceparent: None };
        let command = close_overdue_order::command(&self.app, "order-timeout-sweep", tenant, order, trace);
        with_tx(&self.app.tx, move |unit, _| {
            let command = command.clone();
            Box::pin(async move { command.in_trace_of_order(unit).await?.run(unit).await })
        })
        .await
    }
}
