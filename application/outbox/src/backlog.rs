//! Counts the events that wait to be published.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::ports::{Backlog, OutboxFilter, StoreError};
use crate::slices::Slices;
use crate::transaction::Transactor;

/// A count that takes longer is slow: there is a large backlog, or many dead rows behind an open transaction.
const SLOW: Duration = Duration::from_millis(20);

/// A call ends after this time, also if its count does not: later calls continue it.
const LONGEST_CALL: Duration = Duration::from_secs(2);

/// The backlog of all tenants at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) backlog: Backlog,
    pub(crate) at: DateTime<Utc>,
}

/// Counts at once or, after a count that was slow, in slices. The gauges and the state of a process share it.
#[derive(Debug, Default)]
pub(crate) struct BacklogCount(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The last count that has ended, and was slow.
    last: Option<Counted>,
    /// The count in slices that has begun.
    pass: Option<Pass>,
}

#[derive(Debug)]
struct Pass {
    slices: Slices,
    counted: Counted,
}

impl BacklogCount {
    /// The last count that has ended. Rows that were appended during a count in slices may be missing.
    pub(crate) async fn read(&self, tx: &Transactor) -> Result<Counted, StoreError> {
        let State { last, pass } = &mut *self.0.lock().await;
        let Some(before) = *last else {
            let at = tx.now();
            let mut view = tx.view().await?;
            let begun = Instant::now();
            let backlog = view.outbox_view().outbox_backlog(0..i64::MAX, at).await?;
            let counted = Counted { backlog, at };
            *last = (begun.elapsed() >= SLOW).then_some(counted);
            return Ok(counted);
        };
        let mut going_on = match pass.take() {
            Some(begun) => begun,
            None => Pass::begin(tx).await?,
        };
        let until = Instant::now() + LONGEST_CALL;
        while let Some(ids) = going_on.slices.next_ids() {
            if Instant::now() >= until {
                *pass = Some(going_on);
                return Ok(before);
            }
            let mut view = tx.view().await?;
            let begun = Instant::now();
            let found = view.outbox_view().outbox_backlog(ids, going_on.counted.at).await?;
            let pause = going_on.slices.was_read(begun.elapsed());
            drop(view);
            going_on.add(found);
            tx.sleep(pause).await;
        }
        *last = (going_on.slices.slow() >= SLOW).then_some(going_on.counted);
        Ok(going_on.counted)
    }
}

impl Pass {
    async fn begin(tx: &Transactor) -> Result<Pass, StoreError> {
        let at = tx.now();
        let newest = tx.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await?;
        let slices = Slices::below(newest.first().map_or(0, |row| row.id.saturating_add(1)));
        Ok(Pass { slices, counted: Counted { backlog: Backlog::default(), at } })
    }

    fn add(&mut self, found: Backlog) {
        let total = &mut self.counted.backlog;
        total.new += found.new;
        total.retry += found.retry;
        total.oldest_due = [total.oldest_due, found.oldest_due].into_iter().flatten().min();
    }
}
