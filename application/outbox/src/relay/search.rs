//! The searches of the relay for rows that are due.

use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::PartitionSet;
use tokio::time::Instant;
use tracing::warn;

use super::{RENEWAL_PAUSE, Relay};
use crate::low_water_mark::{LowWaterMark, SearchFrom};
use crate::outbox::Outbox;
use crate::ports::{Due, DueQuery, OutboxFilter, StoreError};

impl Relay {
    pub(super) fn due_query(&self, owned: PartitionSet, now: DateTime<Utc>) -> DueQuery {
        DueQuery {
            partitions: owned,
            now,
            on_failed: self.outbox.on_failed,
            unordered: self.outbox.registry.unordered().clone(),
            limit: self.batch,
            from_id: 0,
            in_flight: self.in_flight.ids(),
        }
    }

    /// The rows that are due, and where their search began. The leases are renewed meanwhile.
    pub(super) async fn due(
        &mut self,
        owned: PartitionSet,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<(SearchFrom, Due), StoreError> {
        let mut view = self.outbox.view().await?;
        if owned.iter().any(|partition| !self.searched.contains(partition)) {
            lock(&self.low_water).reset();
            self.look_ahead = None;
        }
        self.searched = owned;
        let from = lock(&self.low_water).begin();
        let limit = from.late.map_or(limit, |late| late.min(limit));
        let query = DueQuery { from_id: from.id, limit, ..self.due_query(owned, now) };
        self.is_complete = true;
        let begun = Instant::now();
        let due = self.renewing_leases(view.outbox_view().outbox_due(&query)).await;
        let took = begun.elapsed();
        drop(view);
        // A connection may also be lost after a short time.
        let lease = Duration::from_millis(u64::from(self.settings.lease_ms));
        if due.is_err() && took >= self.settings.slow_search.max(lease) {
            let newest = newest_id(&self.outbox).await?;
            lock(&self.low_water).failed(from, newest);
        }
        let due = due?;
        let in_flight = query.in_flight.into_iter().filter(|id| *id >= from.id);
        let pending = due.rows.iter().map(|row| row.id).chain(in_flight);
        lock(&self.low_water).found(from, pending.min(), took);
        Ok((from, due))
    }

    /// Runs a search. While it takes long, the leases are renewed: another relay would take the partitions, and begin the same
    /// search.
    async fn renewing_leases<T>(&mut self, search: impl Future<Output = T>) -> T {
        let mut search = pin!(search);
        loop {
            // The wait for a renewal must not count as time of a fast search.
            let until_tick = self.ownership.until_tick().max(RENEWAL_PAUSE);
            tokio::select! {
                biased;
                found = &mut search => return found,
                () = self.outbox.sleep(until_tick) => self.renew_leases().await,
            }
        }
    }

    /// Where a search that may miss late rows begins.
    pub(super) fn lowest_searched(&self) -> i64 {
        lock(&self.low_water).id()
    }

    /// Searches rows below the mark, if it is time for it. The next searches begin at those that are found.
    pub(super) fn search_fully(&self, owned: PartitionSet) {
        let Some(search) = lock(&self.low_water).full_search() else { return };
        // Only ids are read, whatever the length of payloads.
        let limit = self.settings.batch.get();
        let query = DueQuery { limit, ..self.due_query(owned, self.outbox.now()) };
        let (outbox, low_water, wake) = (self.outbox.clone(), Arc::clone(&self.low_water), self.wake.clone());
        self.outbox.tx.tasks().spawn_until_stop(async move {
            let read = |ids: Range<i64>| {
                let query = DueQuery { now: outbox.now(), from_id: ids.start, ..query.clone() };
                due_ids(&outbox, query, ids.end)
            };
            let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
            match search.run(&low_water, outbox.tx.clock().as_ref(), limit, read).await {
                Ok(true) => wake.notify(owned),
                Ok(false) => {}
                Err(error) => {
                    warn!(code = "relay.full-search-failed", %error, "[OutboxRelay] a search of all rows failed; it is repeated");
                }
            }
        });
    }

    /// Shortest of three times: until the next retry is due, until the next lease renewal, and the scan interval.
    pub(super) fn idle_for(&mut self, next_due: Option<DateTime<Utc>>) -> Duration {
        let now = self.outbox.now();
        let longest = self.settings.scan_interval.min(self.ownership.until_tick());
        let Some(due) = next_due else { return longest };
        let until_due = (due - now).to_std().unwrap_or(Duration::ZERO);
        lock(&self.low_water).full_within(until_due);
        until_due.min(longest)
    }
}

fn lock(mark: &Mutex<LowWaterMark>) -> MutexGuard<'_, LowWaterMark> {
    mark.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The greatest id of the outbox; 0 if it is empty.
async fn newest_id(outbox: &Outbox) -> Result<i64, StoreError> {
    let newest = outbox.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await?;
    Ok(newest.first().map_or(0, |row| row.id))
}

async fn due_ids(
    outbox: &Outbox,
    query: DueQuery,
    until_id: i64,
) -> Result<(Vec<i64>, Duration), StoreError> {
    let mut view = outbox.view().await?;
    let begun = Instant::now();
    let ids = view.outbox_view().outbox_due_ids(&query, until_id).await?;
    Ok((ids, begun.elapsed()))
}
