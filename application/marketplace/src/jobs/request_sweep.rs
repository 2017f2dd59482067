//! Sweep over idempotency keys: removes expired keys and stored responses.

use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use tracing::debug;

use crate::ports::MarketTransactor;
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};
use handover_outbox::with_tx;

/// Maximum number of rows removed per transaction, so that each transaction is short.
const BATCH: NonZeroU32 = NonZeroU32::MIN.saturating_add(499);

pub struct RequestSweep {
    pub tx: MarketTransactor,
    pub interval: Duration,
}

impl RequestSweep {
    /// Starts the sweep on the leader: the sweeps of several processes would delete the same rows.
    pub fn start(self, leader: &Leader) {
        let tx = self.tx.outbox();
        Periodic::new("RequestSweep", self.interval, RunBy::Leader(leader.clone())).start(&tx, self);
    }

    /// Removes one batch. Returns the number of removed rows.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let now = self.tx.now();
        with_tx(&self.tx, (), move |unit, (), _| Box::pin(unit.delete_expired_requests(now, BATCH.get())))
            .await
    }
}

#[async_trait]
impl Job for RequestSweep {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let removed = self.sweep().await?;
        if removed >= u64::from(BATCH.get()) {
            return Ok(Progress::MoreDue);
        }
        debug!(code = "request-sweep.removed", removed, "[RequestSweep] expired keys removed");
        Ok(Progress::Done)
    }
}
