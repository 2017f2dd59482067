//! The sweep over overdue orders: closes what a late or lost timeout message would leave pending (000 §10.2).

use handover_events::TenantId;
use marketplace_domain::OrderId;
use tracing::{info, warn};

use super::TimeoutSettings;
use crate::App;
use crate::use_cases::{Closed, UseCaseError, close_overdue_order};
use handover_events::Trace;
use handover_outbox::with_tx;

/// Sweeps the orders table.
pub struct TimeoutSweep {
    app: App,
    settings: TimeoutSettings,
}

impl TimeoutSweep {
    /// A sweep with these settings.
    pub fn new(app: App, settings: TimeoutSettings) -> TimeoutSweep {
        TimeoutSweep { app, settings }
    }

    /// Sweeps at once and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            match self.sweep().await {
                Ok(closed) if closed >= u64::from(self.settings.sweep_batch.get()) => continue,
                Ok(_) => {}
                Err(error) => warn!(%error, "[OrderTimeoutSweep] failed; it comes again"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.settings.sweep_interval) => {}
            }
        }
    }

    /// Closes one batch; tells how many it closed itself.
    pub async fn sweep(&self) -> Result<u64, UseCaseError> {
        let line = self.app.rules.overdue_line(self.app.now());
        let overdue = self.app.view().await?.orders_overdue(line, self.settings.sweep_batch.get()).await?;
        let mut closed = 0;
        for (tenant, order) in overdue {
            if self.app.tx.tasks.stopping().is_cancelled() {
                break;
            }
            match self.close(tenant, order).await {
                Ok(Closed::Now) => {
                    closed += 1;
                    info!(orderId = %order, "[OrderTimeoutSweep] closed an overdue order");
                }
                Ok(Closed::NotPending(_) | Closed::NotOverdue) => {}
                // One order that cannot be closed must not keep the others open.
                Err(error) => warn!(%error, orderId = %order, "[OrderTimeoutSweep] an order was not closed"),
            }
        }
        Ok(closed)
    }

    async fn close(&self, tenant: TenantId, order: OrderId) -> Result<Closed, UseCaseError> {
        let trace = Trace { trace_id: format!("sweep-{order}"), traceparent: None };
        let command = close_overdue_order::command(&self.app, "order-timeout-sweep", tenant, order, trace);
        with_tx(&self.app.tx, move |unit, _| {
            let command = command.clone();
            Box::pin(async move { command.in_trace_of_order(unit).await?.run(unit).await })
        })
        .await
    }
}
