//! Gauges of events that are not published yet.
//!
//! They are read from the store, because they include rows of other processes and rows inserted by SQL.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use crate::backlog::BacklogCount;
use crate::metrics::{OLDEST_DUE, PENDING, age_seconds, count};
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
    let count = BacklogCount::default();
    while !stopping.is_cancelled() {
        let begun = Instant::now();
        if let Err(error) = sample(&outbox, &count).await {
            debug!(%error, "metrics: cannot count pending events; keeping the previous values");
        }
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = outbox.tx.sleep(INTERVAL.max(begun.elapsed() * PAUSE_FACTOR)) => {}
        }
    }
}

async fn sample(outbox: &Outbox, backlog: &BacklogCount) -> Result<(), StoreError> {
    let now = outbox.now();
    let backlog = backlog.read(outbox, now).await?;
    metrics::gauge!(PENDING.name).set(count(backlog.new + backlog.retry));
    metrics::gauge!(OLDEST_DUE.name).set(age_seconds(backlog.oldest_due, now));
    Ok(())
}
