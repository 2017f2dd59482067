//! Records the results of a window in one transaction.
//!
//! **Invariant:** a partition is settled only under the epoch in which its rows were read.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{EventId, HistoryKind, OutboxStatus, Partition, PartitionSet};

use super::window::{FailureCause, Results};
use crate::event_line::{EVENT_TARGET, EventFields, event_line};
use crate::history;
use crate::metrics::{COMMIT_TO_CONFIRM, DEAD, FAILED, PUBLISH_ATTEMPTS, SENT, seconds};
use crate::outbox::Outbox;
use crate::ports::{
    Confirmed, FailedPublish, HistoryEntry, OutboxRow, OutboxUnit, OwnedPartition, RelayId, StoreError,
};
use crate::summary::Happened;
use crate::transaction::{Attempt, with_tx};

/// Results of a window that are recorded in one unit of work.
pub(super) struct Settlement {
    owner: RelayId,
    owned_partitions: Vec<OwnedPartition>,
    confirmed: BTreeMap<Partition, Vec<Confirmed>>,
    failed: BTreeMap<Partition, Vec<FailedPublish>>,
    /// History entries for failed publishes; the row itself stores only the last error.
    history: BTreeMap<Partition, Vec<HistoryEntry>>,
    causes: BTreeMap<EventId, FailureCause>,
}

impl Settlement {
    /// The settlement of the rows of a window. `owned_partitions` are the epochs at which the rows were read; `at` is the
    /// time of the history entries. It is the same in every attempt at the unit of work, so that an attempt can
    /// recognize the entries that an earlier attempt added.
    pub(super) fn of(
        due: &[OutboxRow],
        owner: &RelayId,
        owned_partitions: Vec<OwnedPartition>,
        results: Results,
        at: DateTime<Utc>,
    ) -> Settlement {
        let rows = by_event(due);
        let partition = |event: &EventId| rows.get(event).map(|row| row.partition());
        let entry = |failed: &FailedPublish| Some(history_of(rows.get(&failed.event_id)?, failed, at));
        let history = by_partition(results.failed.iter().filter_map(entry).collect(), |entry| {
            partition(&entry.event_id)
        });
        let touched: PartitionSet = results
            .confirmed
            .iter()
            .map(Confirmed::event_id)
            .chain(results.failed.iter().map(|failed| &failed.event_id))
            .filter_map(partition)
            .collect();
        let owned_partitions = owned_partitions
            .into_iter()
            .filter(|owned_partition| touched.contains(owned_partition.partition))
            .collect();
        Settlement {
            owner: owner.clone(),
            owned_partitions,
            confirmed: by_partition(results.confirmed, |confirmed| partition(confirmed.event_id())),
            failed: by_partition(results.failed, |failed| partition(&failed.event_id)),
            history,
            causes: results.causes,
        }
    }

    /// Records the results, only for partitions that the relay still owns. Returns the partitions that it has lost.
    pub(super) async fn settle(
        self,
        outbox: &Outbox,
        due: &[OutboxRow],
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        if self.confirmed.is_empty() && self.failed.is_empty() {
            return Ok(Vec::new());
        }
        let job = Arc::new(self);
        let input = (Arc::clone(&job), Arc::clone(outbox.tx.clock()));
        let ours = with_tx(&outbox.tx, input, |unit, (job, clock), attempt| {
            // Each attempt at the unit of work reads the clock again: `now` becomes the send time of the rows, which
            // the search for lost events uses.
            let now = clock.now();
            Box::pin(async move { job.write(unit.outbox(), attempt, now).await })
        })
        .await?;
        job.log(outbox, due, ours);
        let is_lost = |owned: &&OwnedPartition| !ours.contains(owned.partition);
        Ok(job.owned_partitions.iter().filter(is_lost).copied().collect())
    }

    fn log(&self, outbox: &Outbox, due: &[OutboxRow], ours: PartitionSet) {
        let now = outbox.now();
        let rows = by_event(due);
        for (_, confirmed) in self.confirmed.iter().filter(|(partition, _)| ours.contains(**partition)) {
            metrics::counter!(SENT).increment(confirmed.len() as u64);
            for row in confirmed.iter().filter_map(|confirmed| rows.get(confirmed.event_id())) {
                // Time from the creation of the event to its confirm, including its waiting time in the outbox.
                let duration = now - row.create_time;
                metrics::histogram!(COMMIT_TO_CONFIRM).record(seconds(duration));
                metrics::histogram!(PUBLISH_ATTEMPTS).record(f64::from(row.retry_count.saturating_add(1)));
                outbox.figures.confirmed(now, duration);
                outbox.summary().relay(Happened::Done(duration));
                event_line!(target: EVENT_TARGET, INFO, EventFields::of(&outbox.registry, row), code = "outbox.event.sent",
                    traceparent = row.metadata.traceparent, durationMs = duration.num_milliseconds(),
                    "[OutboxRelay] Event sent successfully");
            }
        }
        for (_, failed) in self.failed.iter().filter(|(partition, _)| ours.contains(**partition)) {
            for failed in failed {
                let Some(row) = rows.get(&failed.event_id) else { continue };
                let cause = self.causes.get(&failed.event_id);
                // An unchanged retry count means that the attempt was not counted (broker outage).
                let is_counted = failed.retry_count > row.retry_count;
                if is_counted {
                    metrics::counter!(FAILED).increment(1);
                }
                let fields = EventFields::of(&outbox.registry, row);
                match failed.status {
                    OutboxStatus::Failed => {
                        metrics::counter!(DEAD).increment(1);
                        outbox.summary().relay(Happened::Failed);
                        event_line!(ERROR, fields, code = "outbox.event.failed", retryCount = failed.retry_count,
                            errorCode = cause.map(|cause| cause.code), error = %failed.error,
                            cause = cause.map(|cause| cause.chain.as_str()), "[OutboxRelay] [ALERT] Event marked as FAILED");
                    }
                    OutboxStatus::New | OutboxStatus::Retry | OutboxStatus::Sent if is_counted => {
                        outbox.summary().relay(Happened::Retried);
                        event_line!(WARN, fields, code = "outbox.event.retry", retryCount = failed.retry_count,
                            errorCode = cause.map(|cause| cause.code), error = %failed.error,
                            cause = cause.map(|cause| cause.chain.as_str()), "[OutboxRelay] Event waits for its next attempt");
                    }
                    // The outage has its own lines.
                    OutboxStatus::New | OutboxStatus::Retry | OutboxStatus::Sent => {
                        event_line!(DEBUG, fields, code = "outbox.event.waits-for-broker", retryCount = failed.retry_count,
                            errorCode = cause.map(|cause| cause.code), error = %failed.error,
                            "[OutboxRelay] Event waits until the broker is reachable");
                    }
                }
            }
        }
    }

    /// Writes the results of the partitions that the fence confirms as still owned, and returns these partitions. The
    /// other partitions are left to their new owner.
    async fn write(
        &self,
        unit: &mut dyn OutboxUnit,
        attempt: Attempt,
        now: DateTime<Utc>,
    ) -> Result<PartitionSet, StoreError> {
        let ours = unit.mark_sent_if_owned(&self.owner, &self.owned_partitions, &self.confirmed, now).await?;
        let failed: Vec<FailedPublish> = self
            .failed
            .iter()
            .filter(|(p, _)| ours.contains(**p))
            .flat_map(|(_, list)| list)
            .cloned()
            .collect();
        if !failed.is_empty() {
            unit.mark_failed(&failed, now).await?;
            let entries = self.history.iter().filter(|(p, _)| ours.contains(**p));
            history::add(unit, attempt, entries.flat_map(|(_, list)| list).cloned().collect()).await?;
        }
        Ok(ours)
    }
}

/// History entry for a failed publish.
fn history_of(row: &OutboxRow, failed: &FailedPublish, at: DateTime<Utc>) -> HistoryEntry {
    let kind = match failed.status {
        OutboxStatus::Failed => HistoryKind::Failed,
        OutboxStatus::New | OutboxStatus::Retry | OutboxStatus::Sent => HistoryKind::Retry,
    };
    HistoryEntry {
        tenant: row.aggregate.tenant,
        event_id: row.event_id.clone(),
        kind,
        consumer: None,
        attempts: failed.retry_count,
        detail: Some(failed.error.clone()),
        at,
    }
}

fn by_partition<T>(
    items: Vec<T>,
    partition: impl Fn(&T) -> Option<Partition>,
) -> BTreeMap<Partition, Vec<T>> {
    let mut sorted: BTreeMap<_, Vec<T>> = BTreeMap::new();
    for item in items {
        if let Some(partition) = partition(&item) {
            sorted.entry(partition).or_default().push(item);
        }
    }
    sorted
}

fn by_event(rows: &[OutboxRow]) -> BTreeMap<&EventId, &OutboxRow> {
    rows.iter().map(|row| (&row.event_id, row)).collect()
}
