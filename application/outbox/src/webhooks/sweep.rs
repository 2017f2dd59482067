//! Cancels deliveries of deleted endpoints: those that were written while their endpoint was being deleted, and those beyond the batch
//! that the deletion cancels.

use std::time::Duration;

use async_trait::async_trait;

use crate::jobs::{Job, Periodic, Progress, RunBy};
use crate::ports::{Leadership, StoreError};
use crate::transaction::{Transactor, with_tx};

/// Interval of the sweep.
const INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of deliveries that one unit of work cancels.
pub(super) const MAX_CANCELLED: u32 = 500;

/// The sweep. The consumer does not lock endpoints, so that a delivery can be committed after the deletion of its
/// endpoint was.
pub(super) struct Sweep {
    pub(super) tx: Transactor,
}

impl Sweep {
    /// Starts the sweep. Every process that sends webhooks runs it, so that it needs no lease: a run of another process
    /// finds nothing left to cancel.
    pub(super) fn start(self) {
        let tx = self.tx.clone();
        Periodic::new("WebhookSweep", INTERVAL, RunBy::EveryProcess).start(&tx, self);
    }
}

#[async_trait]
impl Job for Sweep {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let now = self.tx.now();
        let cancelled = with_tx(&self.tx, (), move |unit, (), _| {
            Box::pin(
                async move { unit.outbox().cancel_webhook_deliveries(None, None, now, MAX_CANCELLED).await },
            )
        })
        .await?;
        Ok(if cancelled < u64::from(MAX_CANCELLED) { Progress::Done } else { Progress::MoreDue })
    }
}
