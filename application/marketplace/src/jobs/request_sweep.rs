//! Sweep over idempotency keys: removes expired keys and stored responses.

use std::num::NonZeroU32;

use tracing::{debug, warn};

use crate::App;
use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;

/// Maximum number of rows removed per transaction, so that each transaction is short.
const BATCH: NonZeroU32 = NonZeroU32::MIN.saturating_add(499);

pub struct RequestSweep {
    app: App,
}

impl RequestSweep {
    pub fn new(app: App) -> RequestSweep {
        RequestSweep { app }
    }

    /// Runs immediately and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            match self.sweep().await {
                Ok(removed) if removed >= u64::from(BATCH.get()) => continue,
                Ok(removed) => debug!(removed, "[RequestSweep] expired keys removed"),
                Err(error) => warn!(%error, "[RequestSweep] run failed; retrying at the next interval"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.app.requests.sweep_interval) => {}
            }
        }
    }

    /// Removes one batch. Returns the number of removed rows.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let now = self.app.now();
        with_tx(&self.app.tx, move |unit, _| Box::pin(unit.delete_expired_requests(now, BATCH.get()))).await
    }
}
