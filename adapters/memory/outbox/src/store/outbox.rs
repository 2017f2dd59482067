//! The outbox: queries, and state transitions of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, PartitionSet, TenantId};
use handover_outbox::ports::{
    Ahead, AheadQuery, Backlog, Blocked, Confirmed, Due, DueQuery, FailedPublish, Heartbeat, NewEvent,
    Numbered, OnFailed, OperatorQueries, OperatorRepo, OutboxCounts, OutboxFilter, OutboxQueries, OutboxRepo,
    OutboxRow, OwnedPartition, ReceivedEvent, Redrive, RedrivenRow, RelayId, StoreError, UnorderedTypes,
    UnreadableRow, older_relay,
};

use super::archive::archived_seq;
use super::errors::conflict;
use super::leases::current_lease;
use super::locks::Lock;
use super::new_rows::{new_row, received_row};
use super::outbox_due::{ahead, blocked, blocking, due, next_due, waiting};
use super::outbox_index::{is_unreleased, of_aggregate, of_event, passes};
use super::outbox_tables::{OutboxRows as _, Statement};
use super::statement::{Tables, next};
use super::tables::limited;
use super::unit::MemoryUnit;

#[async_trait]
impl<X: Tables> OutboxQueries for MemoryUnit<X> {
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Due, StoreError> {
        self.read_outbox(|statement| Due { rows: due(statement, query), next: next_due(statement, query) })
            .await
    }

    async fn outbox_due_ids(&mut self, query: &DueQuery, until_id: i64) -> Result<Vec<i64>, StoreError> {
        self.read_outbox(|statement| {
            let rows = due(statement, &DueQuery { limit: u32::MAX, ..query.clone() });
            let mut ids: Vec<i64> =
                rows.iter().map(|row| row.id).filter(|id| (query.from_id..until_id).contains(id)).collect();
            ids.sort_unstable();
            ids.truncate(limited(query.limit));
            ids
        })
        .await
    }

    async fn outbox_ahead(&mut self, query: &AheadQuery) -> Result<Ahead, StoreError> {
        self.read_outbox(|statement| ahead(statement, query)).await
    }

    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        self.read_outbox(|statement| {
            let once: BTreeSet<&EventId> = events.iter().collect();
            once.into_iter().filter_map(|event| of_event(statement, event).cloned()).collect()
        })
        .await
    }

    async fn outbox_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<OutboxRow>, StoreError> {
        self.read_outbox(|statement| {
            let in_order: BTreeSet<&AggregateRef> = aggregates.iter().collect();
            in_order.into_iter().flat_map(|aggregate| of_aggregate(statement, aggregate).cloned()).collect()
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> OperatorQueries for MemoryUnit<X> {
    async fn outbox_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.read_outbox(|statement| {
            let outbox = statement.outbox();
            let page = outbox.select(|table| {
                let rows = table.rows().range(..before.unwrap_or(i64::MAX)).rev();
                rows.map(|(id, row)| (std::cmp::Reverse(*id), row))
            });
            page.filter(|row| passes(filter, row)).take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn outbox_after(
        &mut self,
        filter: &OutboxFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.read_outbox(|statement| {
            let outbox = statement.outbox();
            let above = after.map_or(Bound::Unbounded, Bound::Excluded);
            let rows = outbox
                .select(|table| table.rows().range((above, Bound::Unbounded)).map(|(id, row)| (*id, row)));
            rows.filter(|row| passes(filter, row)).take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn blocked_page(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        self.read_outbox(|statement| blocked(statement, unordered, tenant, before, limit)).await
    }

    async fn waiting_page(
        &mut self,
        unordered: &UnorderedTypes,
        on_failed: OnFailed,
        tenant: Option<TenantId>,
        now: DateTime<Utc>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        self.read_outbox(|statement| waiting(statement, unordered, on_failed, tenant, now, before, limit))
            .await
    }

    /// Always returns an empty list: in memory there are no unreadable rows.
    async fn unreadable_rows(
        &mut self,
        _tenant: Option<TenantId>,
        _after: Option<i64>,
        _limit: u32,
    ) -> Result<Vec<UnreadableRow>, StoreError> {
        self.read_outbox(|_| Vec::new()).await
    }

    async fn outbox_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<OutboxCounts, StoreError> {
        self.read_outbox(|statement| {
            let rows = statement.outbox();
            let newest = rows.all().map(|row| row.id).max().unwrap_or_default();
            let is_newest = |row: &OutboxRow| row.id > newest.saturating_sub(max_ids);
            let counted = rows.all().filter(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant));
            let more_sent = rows.all().any(|row| !is_newest(row));
            let mut counts = OutboxCounts { more_sent, ..OutboxCounts::default() };
            for row in counted {
                match row.status {
                    OutboxStatus::New => counts.new += 1,
                    OutboxStatus::Retry => counts.retry += 1,
                    OutboxStatus::Sent => counts.sent += u64::from(is_newest(row)),
                    OutboxStatus::Failed => counts.failed += 1,
                }
                if row.status.is_pending() && row.sent_time.is_none() {
                    let oldest = counts.oldest_pending.unwrap_or(row.create_time);
                    counts.oldest_pending = Some(oldest.min(row.create_time));
                }
            }
            counts
        })
        .await
    }

    async fn outbox_backlog(&mut self, ids: Range<i64>, now: DateTime<Utc>) -> Result<Backlog, StoreError> {
        self.read_outbox(|statement| {
            let due_since = |row: &OutboxRow| match row.next_retry_time {
                None => Some(row.create_time),
                Some(due) => (due <= now).then_some(due),
            };
            let rows = statement.outbox();
            let in_range = || rows.all().filter(|row| ids.contains(&row.id));
            let with = |status| in_range().filter(|row| row.status == status).count() as u64;
            Backlog {
                new: with(OutboxStatus::New),
                retry: with(OutboxStatus::Retry),
                oldest_due: in_range().filter(|row| row.status.is_pending()).filter_map(due_since).min(),
            }
        })
        .await
    }

    async fn unreleased_failed_rows(&mut self) -> Result<u64, StoreError> {
        self.read_outbox(|statement| {
            let is_unreleased =
                |row: &&OutboxRow| row.status == OutboxStatus::Failed && row.released_time.is_none();
            statement.outbox().all().filter(is_unreleased).count() as u64
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> OutboxRepo for MemoryUnit<X> {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        // The lock of a sequence orders concurrent units of work. The locks are sorted, so that two units of work that append
        // events of several aggregates cannot wait for each other.
        let numbered = events.iter().filter(|event| event.aggregate_seq.is_none());
        let mut locks: Vec<Lock> = numbered.map(|event| Lock::Sequence(event.aggregate.clone())).collect();
        locks.sort();
        locks.extend(events.iter().map(|event| Lock::Event(event.event_id.clone())));
        self.write_outbox(locks, |statement| {
            if events.iter().any(|event| event.aggregate.id.key().is_some()) {
                let heartbeats: Vec<Heartbeat> = statement.relays().all().cloned().collect();
                if let Some(older) = older_relay(&heartbeats, statement.database_now()) {
                    return Err(StoreError::Unavailable(Box::new(older)));
                }
            }
            for event in events {
                if of_event(statement, &event.event_id).is_some() {
                    return Err(conflict(format!("outbox.event_id {}", event.event_id)));
                }
                let id = next(&mut statement.sequences.outbox);
                let seq = event.aggregate_seq.unwrap_or_else(|| next_seq(statement, &event.aggregate));
                statement.own.outbox.put(new_row(id, seq, event));
            }
            Ok(())
        })
        .await?;
        self.appended.extend(
            events.iter().map(|event| Partition::of(event.aggregate.tenant, event.aggregate.id.number())),
        );
        Ok(())
    }

    async fn receive(&mut self, events: &[ReceivedEvent]) -> Result<(), StoreError> {
        let locks = events.iter().map(|event| Lock::Event(event.event_id.clone())).collect();
        self.write_outbox(locks, |statement| {
            for event in events {
                let is_known = of_event(statement, &event.event_id).is_some()
                    || statement.archived().get(&event.event_id).is_some();
                if !is_known {
                    let id = next(&mut statement.sequences.outbox);
                    statement.own.outbox.put(received_row(id, event));
                }
            }
            Ok(())
        })
        .await
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError> {
        let locks = holds.iter().map(|hold| Lock::Partition(hold.partition)).collect();
        self.write_outbox(locks, |statement| {
            let owned = holds.iter().filter(|hold| current_lease(statement, owner, hold).is_some());
            Ok(owned.map(|hold| hold.partition).collect())
        })
        .await
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let locks = confirmed.iter().map(|proof| Lock::Event(proof.event_id().clone())).collect();
        self.write_outbox(locks, |statement| {
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
        self.write_outbox(locks, |statement| {
            if failed.iter().any(|publish| matches!(publish.status, OutboxStatus::New | OutboxStatus::Sent)) {
                return Err(StoreError::Backend("a failed publish must become RETRY or FAILED".into()));
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

    async fn bring_retries_forward(
        &mut self,
        partitions: PartitionSet,
        beyond: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let is_late = |row: &OutboxRow| {
            row.status == OutboxStatus::Retry
                && row.retry_count > 0
                && row.next_retry_time.is_some_and(|due| due > beyond)
                && partitions.contains(row.partition())
        };
        let found = self
            .read_outbox(|statement| {
                let later = statement.outbox().select(|table| {
                    let retries = table.index.retries.range((beyond, i64::MAX)..);
                    retries.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
                });
                later.filter(|row| is_late(row)).map(|row| row.event_id.clone()).collect::<Vec<_>>()
            })
            .await?;
        let locks = found.iter().cloned().map(Lock::Event).collect();
        self.write_outbox(locks, |statement| {
            let mut changed = 0;
            for event in &found {
                // The row is checked again: another unit of work may have changed it while this one waited for the
                // lock.
                let Some(row) = of_event(statement, event).filter(|row| is_late(row)).cloned() else {
                    continue;
                };
                let due_now = OutboxRow { next_retry_time: Some(now), update_time: now, ..row };
                statement.own.outbox.put(due_now);
                changed += 1;
            }
            Ok(changed)
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> OperatorRepo for MemoryUnit<X> {
    async fn redrive(
        &mut self,
        rows: &[Redrive],
        now: DateTime<Utc>,
    ) -> Result<Vec<RedrivenRow>, StoreError> {
        let locks = rows.iter().map(|row| Lock::Event(row.event_id.clone())).collect();
        let moved = self
            .write_outbox(locks, |statement| {
                let mut moved = BTreeMap::new();
                for Redrive { event_id, due } in rows {
                    let Some(row) = of_event(statement, event_id).filter(|row| !row.status.is_pending())
                    else {
                        continue;
                    };
                    let before = RedrivenRow {
                        tenant: row.aggregate.tenant,
                        event_id: row.event_id.clone(),
                        status: row.status,
                        retry_count: row.retry_count,
                        sent_time: row.sent_time,
                    };
                    let redriven = OutboxRow {
                        status: OutboxStatus::Retry,
                        retry_count: 0,
                        next_retry_time: Some(*due),
                        released_time: None,
                        update_time: now,
                        ..row.clone()
                    };
                    moved.insert(event_id.clone(), (redriven.partition(), before));
                    statement.own.outbox.put(redriven);
                }
                Ok(moved)
            })
            .await?;
        let (partitions, before): (Vec<_>, Vec<_>) = moved.into_values().unzip();
        self.appended.extend(partitions);
        Ok(before)
    }

    async fn release(
        &mut self,
        aggregate: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let found = self
            .read_outbox(|statement| {
                let blocking = blocking(statement, aggregate, unordered);
                blocking.map(|row| row.event_id.clone()).collect::<Vec<_>>()
            })
            .await?;
        let locks = found.iter().cloned().map(Lock::Event).collect();
        let released = self
            .write_outbox(locks, |statement| {
                let mut released = 0;
                for event in &found {
                    // The row is checked again: another unit of work may have released or redriven it while this one
                    // waited for the row lock.
                    let Some(row) = of_event(statement, event).filter(|row| is_unreleased(row)).cloned()
                    else {
                        continue;
                    };
                    let released_row = OutboxRow { released_time: Some(now), update_time: now, ..row };
                    statement.own.outbox.put(released_row);
                    released += 1;
                }
                Ok(released)
            })
            .await?;
        if released > 0 {
            self.appended.push(Partition::of(aggregate.tenant, aggregate.id.number()));
        }
        Ok(released)
    }
}

/// Changes the row of an event if it is pending; returns whether it did.
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

/// The number after the highest one of the aggregate.
fn next_seq(statement: &Statement<'_>, aggregate: &AggregateRef) -> i64 {
    let stored = of_aggregate(statement, aggregate).last().map(|row| row.aggregate_seq);
    stored.max(archived_seq(statement, aggregate)).map_or(1, |seq| seq + 1)
}
