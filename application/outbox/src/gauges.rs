//! Gauges of events that are not published yet.
//!
//! They are read from the store, because they include rows of other processes and rows inserted by SQL.

use std::time::Duration;

use tracing::debug;

use crate::metrics::{OLDEST_DUE, PENDING, age_seconds, count};
use crate::outbox::Outbox;
use crate::ports::StoreError;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_secs(5);

/// Sets the gauges until the process stops.
pub(crate) async fn keep_sampling(outbox: Outbox) {
    let stopping = outbox.tx.stopping().clone();
    while !stopping.is_cancelled() {
        if let Err(error) = sample(&outbox).await {
            debug!(%error, "metrics: cannot count pending events; keeping the previous values");
        }
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = outbox.tx.sleep(INTERVAL) => {}
        }
    }
}

async fn sample(outbox: &Outbox) -> Result<(), StoreError> {
    let counted = outbox.backlog.read(&outbox.tx).await?;
    metrics::gauge!(PENDING.name).set(count(counted.backlog.new + counted.backlog.retry));
    metrics::gauge!(OLDEST_DUE.name).set(age_seconds(counted.backlog.oldest_due, counted.at));
    Ok(())
}
