//! Repair of lost events (004 "OrderAssetConsistencyJob"): appends the events that the state of an order requires and that
//! are missing in the outbox.
//!
//! **Invariant:** no event takes effect twice. If consumers applied an event before its outbox row was lost, the event
//! is appended with its old id, so these consumers ignore it.

use chrono::TimeDelta;
use tracing::{info, warn};

use super::ConsistencySettings;
use crate::App;
use crate::consistency::{announce_missing, read_rows};
use handover_outbox::ports::StoreError;

pub struct ConsistencyRepair {
    app: App,
    settings: ConsistencySettings,
}

impl ConsistencyRepair {
    pub fn new(app: App, settings: ConsistencySettings) -> ConsistencyRepair {
        ConsistencyRepair { app, settings }
    }

    /// Runs immediately and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            match self.repair().await {
                Ok(0) => {}
                Ok(repaired) => info!(repaired, "[OrderAssetConsistency] lost events appended"),
                Err(error) => {
                    warn!(%error, "[OrderAssetConsistency] run failed; retrying at the next interval")
                }
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.settings.scan_interval) => {}
            }
        }
    }

    /// Checks the orders that changed within the window. Ends early when the process stops. Returns the number of
    /// appended events.
    pub async fn repair(&self) -> Result<u64, StoreError> {
        let now = self.app.now();
        let since = TimeDelta::from_std(self.settings.scan_window)
            .ok()
            .and_then(|window| now.checked_sub_signed(window))
            .unwrap_or_default();
        let mut after = None;
        let mut repaired = 0;
        loop {
            let mut view = self.app.view().await?;
            let orders = view.orders_changed(None, since, now, after, self.settings.batch.get()).await?;
            let Some(last) = orders.last() else { return Ok(repaired) };
            after = Some((last.update_time, last.id));
            let mut lost = Vec::new();
            for rows in read_rows(view.as_mut(), &orders).await? {
                let missing = rows.missing_events().len() as u64;
                if missing > 0 {
                    lost.push((rows.order.tenant, rows.order.id, missing));
                }
            }
            // Release the view before a unit of work begins: a task uses at most one connection of the store.
            drop(view);
            for (tenant, order, missing) in lost {
                metrics::counter!("consistency.event.missing").increment(missing);
                for (id, event) in announce_missing(&self.app, tenant, order, None).await? {
                    repaired += 1;
                    metrics::counter!("consistency.event.repaired").increment(1);
                    warn!(orderId = %order, eventId = %id, eventType = %event.event_type(),
                        "[OrderAssetConsistency] [ALERT] event was missing in the outbox; appended");
                }
            }
            if self.app.tx.tasks.stopping().is_cancelled() {
                return Ok(repaired);
            }
        }
    }
}
