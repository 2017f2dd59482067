//! The sweep over idempotency keys: removes answers that are kept long enough (spec §4).

use std::num::NonZeroU32;

use tracing::{debug, warn};

use crate::App;
use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;

/// Removed at a time: a short write, whatever has gathered.
const BATCH: NonZeroU32 = NonZeroU32::MIN.saturating_add(499);

/// Sweeps the idempotency keys.
pub struct RequestSweep {
    app: App,
}

impl RequestSweep {
    /// A sweep with the settings of the application.
    pub fn new(app: App) -> RequestSweep {
        RequestSweep { app }
    }

    /// Sweeps at once and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            match self.sweep().await {
                Ok(removed) if removed >= u64::from(BATCH.get()) => continue,
                Ok(removed) => debug!(removed, "[RequestSweep] swept"),
                Err(error) => warn!(%error, "[RequestSweep] failed; it comes again"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.app.requests.sweep_interval) => {}
            }
        }
    }

    /// Removes one batch; tells how many.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let now = self.app.now();
        with_tx(&self.app.tx, move |unit, _| Box::pin(unit.sweep_requests(now, BATCH.get()))).await
    }
}
