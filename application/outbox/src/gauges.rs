//! Gauges of events that are not published yet.
//!
//! They are read from the store, because they include rows of other processes and rows inserted by SQL.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use crate::metrics::{OLDEST_DUE, PENDING};
use crate::outbox::Outbox;
use crate::ports::StoreError;

/// Shortest interval between two samples.
const INTERVAL: Duration = Duration::from_secs(5);

/// After a sample the task sleeps for at least this multiple of the duration of the sample, so that a large backlog is
/// not counted all the time.
const PAUSE_FACTOR: u32 = 20;

/// Sets the gauges until the process stops.
pub(crate) async fn keep_sampling(outbox: Outbox) {
    let stopping = outbox.tx.stopping().clone();
    while !stopping.is_cancelled() {
        let begun = Instant::now();
        if let Err(error) = sample(&outbox).await {
            debug!(%error, "metrics: cannot count pending events; keeping the previous values");
        }
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = outbox.tx.sleep(INTERVAL.max(begun.elapsed() * PAUSE_FACTOR)) => {}
        }
    }
}

async fn sample(outbox: &Outbox) -> Result<(), StoreError> {
    let now = outbox.now();
    let backlog = outbox.view().await?.outbox_view().outbox_backlog(now).await?;
    metrics::gauge!(PENDING).set(gauge(backlog.pending));
    let age = backlog.oldest_due.map_or(0, |due| (now - due).num_seconds().max(0));
    metrics::gauge!(OLDEST_DUE).set(gauge(age.unsigned_abs()));
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn gauge(count: u64) -> f64 {
    count as f64
}
