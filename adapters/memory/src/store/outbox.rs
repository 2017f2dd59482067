//! The outbox: what may be published, and how far each row has come.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::{
    Confirmed, FailedPublish, NewEvent, OnFailed, OutboxFilter, OutboxQueries, OutboxRepo, OutboxRow,
    PartitionHold, RelayId, StoreError,
};
use handover_domain::{AggregateRef, EventId, EventType, OutboxStatus, Partition, PartitionSet};

use super::leases::still_held;
use super::locks::Lock;
use super::outbox_index::{of_aggregate, of_event};
use super::statement::{Statement, next};
use super::unit::MemoryUnit;
use super::{conflict, limited};

fn is_ordered(row: &OutboxRow) -> bool {
    row.event_type != EventType::OrderTimeout.as_str()
}

fn is_due(row: &OutboxRow, now: DateTime<Utc>) -> bool {
    row.next_retry_time.is_none_or(|due| due <= now)
}

/// What of one aggregate may go: its ordered due rows up to the first that holds back the rest.
struct Line<'s> {
    free: Vec<&'s OutboxRow>,
    taken: usize,
}

impl<'s> Line<'s> {
    fn of(
        statement: &'s Statement<'_>,
        aggregate: &AggregateRef,
        now: DateTime<Utc>,
        on_failed: OnFailed,
    ) -> Line<'s> {
        let mut free = Vec::new();
        for row in of_aggregate(statement, aggregate).filter(|row| is_ordered(row)) {
            match row.status {
                OutboxStatus::New | OutboxStatus::Retry if is_due(row, now) => free.push(row),
                OutboxStatus::New | OutboxStatus::Retry => break,
                OutboxStatus::Failed if on_failed == OnFailed::Hold => break,
                OutboxStatus::Failed | OutboxStatus::Sent => {}
            }
        }
        Line { free, taken: 0 }
    }

    /// The rows not taken yet, up to and with this one; none if this one is held back.
    fn take_up_to(&mut self, row: &OutboxRow) -> &[&'s OutboxRow] {
        let first = self.taken;
        let waiting = self.free.get(first..).unwrap_or_default();
        let Some(position) = waiting.iter().position(|free| free.id == row.id) else { return &[] };
        self.taken = first + position + 1;
        waiting.get(..=position).unwrap_or_default()
    }
}

#[async_trait]
impl OutboxQueries for MemoryUnit {
    async fn outbox_due(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
        on_failed: OnFailed,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|statement| {
            let outbox = statement.outbox();
            let pending = outbox
                .select(|table| table.index.pending.iter().filter_map(|id| Some((*id, table.get(id)?))))
                .filter(|row| partitions.contains(row.partition()) && is_due(row, now));
            let mut lines: BTreeMap<&AggregateRef, Line<'_>> = BTreeMap::new();
            let mut due = Vec::new();
            for row in pending {
                if due.len() >= limited(limit) {
                    break;
                }
                if is_ordered(row) {
                    let line = lines
                        .entry(&row.aggregate)
                        .or_insert_with(|| Line::of(statement, &row.aggregate, now, on_failed));
                    due.extend_from_slice(line.take_up_to(row));
                } else {
                    due.push(row);
                }
            }
            due.truncate(limited(limit));
            due.into_iter().cloned().collect()
        })
        .await
    }

    async fn outbox_next_due(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, StoreError> {
        self.read(|statement| {
            let outbox = statement.outbox();
            let later = outbox.select(|table| {
                let retries = table.index.retries.range((now, i64::MAX)..);
                retries.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
            });
            later.filter(|row| partitions.contains(row.partition())).find_map(|row| row.next_retry_time)
        })
        .await
    }

    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|statement| {
            let once: BTreeSet<&EventId> = events.iter().collect();
            once.into_iter().filter_map(|event| of_event(statement, event).cloned()).collect()
        })
        .await
    }

    async fn outbox_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|statement| {
            let outbox = statement.outbox();
            let page = outbox.select(|table| {
                let rows = table.rows().range(..before.unwrap_or(i64::MAX)).rev();
                rows.map(|(id, row)| (std::cmp::Reverse(*id), row))
            });
            page.filter(|row| passes(filter, row)).take(limited(limit)).cloned().collect()
        })
        .await
    }
}

fn passes(filter: &OutboxFilter, row: &OutboxRow) -> bool {
    filter.tenant.is_none_or(|tenant| row.aggregate.tenant == tenant)
        && filter.status.is_none_or(|status| row.status == status)
        && filter.event_type.as_ref().is_none_or(|event_type| row.event_type == *event_type)
        && filter.aggregate_id.is_none_or(|id| row.aggregate.id == id)
        && filter.from.is_none_or(|from| row.create_time >= from)
        && filter.to.is_none_or(|to| row.create_time < to)
}

#[async_trait]
impl OutboxRepo for MemoryUnit {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        let locks = events.iter().map(|event| Lock::Event(event.event_id.clone())).collect();
        self.write(locks, |statement| {
            for event in events {
                if of_event(statement, &event.event_id).is_some() {
                    return Err(conflict(format!("outbox.event_id {}", event.event_id)));
                }
                let id = next(&mut statement.sequences.outbox);
                statement.own.outbox.put(new_row(id, event));
            }
            Ok(())
        })
        .await?;
        self.appended
            .extend(events.iter().map(|event| Partition::of(event.aggregate.tenant, event.aggregate.id)));
        Ok(())
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[PartitionHold]) -> Result<PartitionSet, StoreError> {
        let locks = holds.iter().map(|hold| Lock::Partition(hold.partition)).collect();
        self.write(locks, |statement| {
            let good = holds.iter().filter(|hold| still_held(statement, owner, hold).is_some());
            Ok(good.map(|hold| hold.partition).collect())
        })
        .await
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let locks = confirmed.iter().map(|proof| Lock::Event(proof.event_id().clone())).collect();
        self.write(locks, |statement| {
            let moved = confirmed.iter().filter(|proof| {
                settle(statement, proof.event_id(), |row| OutboxRow {
                    status: OutboxStatus::Sent,
                    next_retry_time: None,
                    sent_time: Some(now),
                    update_time: now,
                    ..row
                })
            });
            Ok(count(moved))
        })
        .await
    }

    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let locks = failed.iter().map(|publish| Lock::Event(publish.event_id.clone())).collect();
        self.write(locks, |statement| {
            if failed.iter().any(|publish| matches!(publish.status, OutboxStatus::New | OutboxStatus::Sent)) {
                return Err(StoreError::Backend("a failed publish is RETRY or FAILED".into()));
            }
            let moved = failed.iter().filter(|publish| {
                settle(statement, &publish.event_id, |row| OutboxRow {
                    status: publish.status,
                    retry_count: publish.retry_count,
                    next_retry_time: publish.next_retry_time,
                    last_error: Some(publish.error.clone()),
                    update_time: now,
                    ..row
                })
            });
            Ok(count(moved))
        })
        .await
    }
}

/// Changes the event's row if it is pending; tells whether.
fn settle(
    statement: &mut Statement<'_>,
    event: &EventId,
    change: impl FnOnce(OutboxRow) -> OutboxRow,
) -> bool {
    let Some(row) = of_event(statement, event).filter(|row| row.status.is_pending()).cloned() else {
        return false;
    };
    statement.own.outbox.put(change(row));
    true
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.fold(0, |count, _| count + 1)
}

fn new_row(id: i64, event: &NewEvent) -> OutboxRow {
    OutboxRow {
        id,
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        aggregate: event.aggregate.clone(),
        aggregate_seq: event.aggregate_seq,
        payload: event.payload.clone(),
        metadata: event.metadata.clone(),
        status: OutboxStatus::New,
        retry_count: 0,
        max_retry_count: event.max_retry_count,
        next_retry_time: None,
        last_error: None,
        create_time: event.occurred_at,
        update_time: event.occurred_at,
        sent_time: None,
    }
}
