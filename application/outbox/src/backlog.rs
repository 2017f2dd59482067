//! Counts the events that wait to be published.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::outbox::Outbox;
use crate::ports::{Backlog, OutboxFilter, StoreError};
use crate::slices::Slices;

/// A count that takes longer is slow: there is a large backlog, or many dead rows behind an open transaction.
const SLOW: Duration = Duration::from_millis(20);

/// Counts at once or, if the last count was slow, in slices.
#[derive(Debug, Default)]
pub(crate) struct BacklogCount {
    is_slow: AtomicBool,
}

impl BacklogCount {
    /// The backlog of all tenants. A count in slices takes about ten times as long, and may leave out rows that were appended
    /// meanwhile.
    pub(crate) async fn read(&self, outbox: &Outbox, now: DateTime<Utc>) -> Result<Backlog, StoreError> {
        let (backlog, took) = if self.is_slow.load(Ordering::Relaxed) {
            in_slices(outbox, now).await?
        } else {
            let begun = Instant::now();
            let backlog = outbox.view().await?.outbox_view().outbox_backlog(0..i64::MAX, now).await?;
            (backlog, begun.elapsed())
        };
        self.is_slow.store(took >= SLOW, Ordering::Relaxed);
        Ok(backlog)
    }
}

async fn in_slices(outbox: &Outbox, now: DateTime<Utc>) -> Result<(Backlog, Duration), StoreError> {
    let newest = outbox.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await?;
    let mut slices = Slices::below(newest.first().map_or(0, |row| row.id.saturating_add(1)));
    let mut total = Backlog::default();
    while let Some(ids) = slices.next_ids() {
        let begun = Instant::now();
        let found = outbox.view().await?.outbox_view().outbox_backlog(ids, now).await?;
        total.new += found.new;
        total.retry += found.retry;
        total.oldest_due = [total.oldest_due, found.oldest_due].into_iter().flatten().min();
        outbox.sleep(slices.was_read(begun.elapsed())).await;
    }
    Ok((total, slices.took()))
}
