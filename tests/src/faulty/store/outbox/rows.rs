//! Faults of the outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::PoisonError;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> Faulty<U> {
    /// All due rows, including rows that an earlier row of the aggregate blocks, sorted by id.
    async fn pending(
        &mut self,
        DueQuery { partitions, now, in_flight, .. }: &DueQuery,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let mut rows =
            self.inner().outbox_view().outbox_page(&OutboxFilter::default(), None, u32::MAX).await?;
        rows.retain(|row| {
            let is_due = row.next_retry_time.is_none_or(|due| due <= *now);
            row.status.is_pending()
                && is_due
                && partitions.contains(row.partition())
                && !in_flight.contains(&row.id)
        });
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }

    fn in_flight(&self, query: &DueQuery) -> Vec<i64> {
        if self.has(Fault::DueIncludesRowsInFlight) { Vec::new() } else { query.in_flight.clone() }
    }
}

impl<U: MarketView + ?Sized> OutboxQueriesWrapper for Faulty<U> {
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Due, StoreError> {
        let limit_of = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let starts_late = self.has(Fault::DueStartsAfterFirstId) && query.from_id > 0;
        let from_id = query.from_id + i64::from(starts_late);
        let query = &DueQuery { from_id, in_flight: self.in_flight(query), ..query.clone() };
        let mut due = self.inner().outbox_view().outbox_due(query).await?;
        if self.has(Fault::NextDueIsNotAfterNow) {
            let early = DueQuery { now: query.now - TimeDelta::microseconds(1), ..query.clone() };
            due.next = self.inner().outbox_view().outbox_due(&early).await?.next;
        }
        if self.has(Fault::DueIncludesBlockedRows) {
            let mut rows = self.pending(query).await?;
            // The fault must violate one guarantee only, so rows of one aggregate stay in sequence.
            let slots: Vec<_> = rows.iter().map(|row| row.aggregate.clone()).collect();
            rows.sort_by_key(|row| (row.aggregate_seq, row.id));
            due.rows.clear();
            for slot in slots {
                let at = rows.iter().position(|row| row.aggregate == slot).expect("as many rows as slots");
                due.rows.push(rows.remove(at));
            }
            due.rows.truncate(limit_of);
        }
        if self.has(Fault::BlockedRowsCountAgainstLimit) {
            let mut first = self.pending(query).await?;
            let all = DueQuery { limit: u32::MAX, ..query.clone() };
            let all = self.inner().outbox_view().outbox_due(&all).await?.rows;
            if first.len() != all.len() {
                first.truncate(limit_of);
                first.retain(|row| all.contains(row));
                due.rows = first;
            }
        }
        if self.has(Fault::DueIgnoresRowsBelowFirstId) {
            due.rows.retain(|row| row.id >= query.from_id);
        }
        Ok(due)
    }

    async fn outbox_due_ids(&mut self, query: &DueQuery, until_id: i64) -> Result<Vec<i64>, StoreError> {
        let until_id = until_id.saturating_add(i64::from(self.has(Fault::DueIdsIncludeEndOfRange)));
        if self.has(Fault::DueIdsIncludeBlockedRows) {
            let mut ids: Vec<i64> = self.pending(query).await?.iter().map(|row| row.id).collect();
            ids.retain(|id| (query.from_id..until_id).contains(id));
            ids.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
            return Ok(ids);
        }
        self.inner().outbox_view().outbox_due_ids(query, until_id).await
    }

    async fn outbox_ahead(&mut self, query: &AheadQuery) -> Result<Ahead, StoreError> {
        let mut query = query.clone();
        if self.has(Fault::AheadIncludesExcludedGroups) {
            query.except.clear();
        }
        if self.has(Fault::AheadIgnoresDueTimes) {
            query.due.now += TimeDelta::days(1);
        }
        query.due.in_flight = self.in_flight(&query.due);
        let mut ahead = self.inner().outbox_view().outbox_ahead(&query).await?;
        if self.has(Fault::AheadOvertakesPendingRows) {
            let due = DueQuery { limit: u32::MAX, from_id: 0, ..query.due.clone() };
            let is_found = |row: &OutboxRow| {
                (query.due.from_id..ahead.next_id).contains(&row.id)
                    && !query.except.iter().any(|group| group.contains(row.aggregate.tenant, &row.event_type))
            };
            let mut rows = self.inner().outbox_view().outbox_due(&due).await?.rows;
            rows.retain(is_found);
            rows.sort_by_key(|row| row.id);
            ahead.rows = rows;
        }
        if self.has(Fault::AheadSkipsRowOfNextId) {
            ahead.next_id += 1;
        }
        Ok(ahead)
    }

    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        let mut rows = self.inner().outbox_view().outbox_by_event(events).await?;
        if self.has(Fault::MarkSentMovesFailedRows) {
            let marked = self.shared.marked.lock().unwrap_or_else(PoisonError::into_inner);
            for row in rows.iter_mut().filter(|row| row.status == OutboxStatus::Failed) {
                if marked.contains(&row.event_id) {
                    row.status = OutboxStatus::Sent;
                }
            }
        }
        Ok(rows)
    }

    async fn outbox_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<OutboxRow>, StoreError> {
        if self.has(Fault::TextKeysAreReadByTheirNumber) {
            let numbers = |of: &AggregateRef| (of.tenant, of.kind.clone(), of.id.number());
            let wanted: BTreeSet<_> = aggregates.iter().map(numbers).collect();
            let every = OutboxFilter::default();
            let mut rows = self.inner().outbox_view().outbox_page(&every, None, u32::MAX).await?;
            rows.retain(|row| wanted.contains(&numbers(&row.aggregate)));
            rows.sort_by_key(|row| (row.aggregate.clone(), row.aggregate_seq, row.id));
            return Ok(rows);
        }
        let mut rows = self.inner().outbox_view().outbox_about(aggregates).await?;
        if self.has(Fault::RowsOfAggregatesAreSortedById) {
            rows.sort_by_key(|row| row.id);
        }
        Ok(rows)
    }
}

impl<U: MarketView + ?Sized> OperatorQueriesWrapper for Faulty<U> {
    async fn blocked_page(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        let tenant = if self.has(Fault::BlockedLeaksToOtherTenants) { None } else { tenant };
        let before = self.first_below(before);
        let mut page = self.inner().outbox_view().blocked_page(unordered, tenant, before, limit).await?;
        if self.has(Fault::BlockedCountsAllPendingRows) {
            for row in &mut page {
                let about = self
                    .inner()
                    .outbox_view()
                    .outbox_about(std::slice::from_ref(&row.effect.aggregate))
                    .await?;
                row.effect.held = about.iter().filter(|row| row.status.is_pending()).count() as u64;
            }
        }
        Ok(page)
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
        let tenant = if self.has(Fault::BlockedLeaksToOtherTenants) { None } else { tenant };
        let on_failed =
            if self.has(Fault::BlockedAggregatesAreAlsoWaiting) { OnFailed::Continue } else { on_failed };
        self.inner().outbox_view().waiting_page(unordered, on_failed, tenant, now, before, limit).await
    }

    async fn unreadable_rows(
        &mut self,
        tenant: Option<TenantId>,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<UnreadableRow>, StoreError> {
        let mut found = self.inner().outbox_view().unreadable_rows(tenant, after, limit).await?;
        if self.has(Fault::FailedRowsAreUnreadable) {
            let failed = OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() };
            let rows = self.inner().outbox_view().outbox_after(&failed, after, limit).await?;
            found.extend(rows.into_iter().map(|row| UnreadableRow {
                id: row.id,
                tenant: Some(row.aggregate.tenant),
                event_id: Some(row.event_id),
                column: "status",
                why: "unknown".into(),
            }));
        }
        Ok(found)
    }

    async fn outbox_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<OutboxCounts, StoreError> {
        let tenant = if self.has(Fault::CountsIncludeAllTenants) { None } else { tenant };
        let max_ids = if self.has(Fault::CountsIncludeAllIds) { i64::MAX } else { max_ids };
        let counts = self.inner().outbox_view().outbox_counts(tenant, max_ids).await?;
        if self.has(Fault::CountsOmitOlderIds) && counts.more_sent {
            return Ok(OutboxCounts { new: 0, retry: 0, failed: 0, ..counts });
        }
        Ok(counts)
    }

    async fn outbox_backlog(&mut self, ids: Range<i64>, now: DateTime<Utc>) -> Result<Backlog, StoreError> {
        let ahead = if self.has(Fault::BacklogCountsFutureRetriesAsDue) {
            TimeDelta::days(1)
        } else {
            TimeDelta::zero()
        };
        let end = ids.end.saturating_add(i64::from(self.has(Fault::BacklogIncludesEndOfRange)));
        self.inner().outbox_view().outbox_backlog(ids.start..end, now + ahead).await
    }

    async fn unreleased_failed_rows(&mut self) -> Result<u64, StoreError> {
        if self.has(Fault::FailedRowsIncludeReleasedOnes) {
            return Ok(self.inner().outbox_view().outbox_counts(None, i64::MAX).await?.failed);
        }
        self.inner().outbox_view().unreleased_failed_rows().await
    }
}

impl OutboxRepoWrapper for Unit {
    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut failed = failed.to_vec();
        if self.has(Fault::RetryTimesAreTruncatedToMilliseconds) {
            for publish in &mut failed {
                publish.next_retry_time = publish.next_retry_time.map(|due| due.trunc_subsecs(3));
            }
        }
        self.inner().outbox().mark_failed(&failed, now).await
    }

    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        let mut events = events.to_vec();
        if self.has(Fault::EventsAreAppendedAfterCommit) {
            self.events.extend(events);
            return Ok(());
        }
        if self.has(Fault::DeferredEventsAreLost) && self.defers_writes {
            return Ok(());
        }
        if self.has(Fault::IdleConsumersAreForgotten) {
            events.iter_mut().for_each(|event| event.idle_consumers = IdleConsumers::default());
        }
        if self.has(Fault::AppendKeepsFirstHundredOnly) {
            events.truncate(100);
        }
        if self.has(Fault::AppendIgnoresCase) {
            let rows = self.inner().outbox().outbox_page(&OutboxFilter::default(), None, u32::MAX).await?;
            let mut taken: BTreeSet<_> =
                rows.iter().map(|row| row.event_id.as_str().to_lowercase()).collect();
            for event in &events {
                if !taken.insert(event.event_id.as_str().to_lowercase()) {
                    self.failed = true;
                    return Err(StoreError::Conflict { what: "event_id".into() });
                }
            }
        }
        if self.has(Fault::ArchiveRestartsNumbers) {
            for event in events.iter_mut().filter(|event| event.aggregate_seq.is_none()) {
                let of = std::slice::from_ref(&event.aggregate);
                let archived = self.inner().outbox().archived_about(of).await?;
                if !archived.is_empty() && self.inner().outbox().outbox_about(of).await?.is_empty() {
                    event.aggregate_seq = Some(1);
                }
            }
        }
        let mut numbers: BTreeMap<AggregateRef, i64> = BTreeMap::new();
        for event in &mut events {
            if self.has(Fault::NumbersRestartInEachCall) && event.aggregate_seq.is_none() {
                let number = numbers.entry(event.aggregate.clone()).or_insert(0);
                *number += 1;
                event.aggregate_seq = Some(*number);
            }
            if self.has(Fault::DueTimesAreIgnored) {
                event.due = None;
            }
            if self.has(Fault::AppendReformatsPayloads) {
                let value: Result<serde_json::Value, _> = serde_json::from_str(&event.payload);
                event.payload = value.map_or_else(|_| event.payload.clone(), |value| format!("{value:#}"));
            }
            if self.has(Fault::AppendDropsRoutingKeys) {
                event.routing_key = None;
            }
        }
        self.appended.extend(
            events.iter().map(|event| Partition::of(event.aggregate.tenant, event.aggregate.id.number())),
        );
        let heartbeats = self.inner().outbox().heartbeats().await?;
        let is_hidden =
            |beat: &&Heartbeat| self.has(Fault::OlderRelaysAreIgnored) && !beat.relay.knows_text_keys();
        let hidden: Vec<Heartbeat> = heartbeats.iter().filter(is_hidden).cloned().collect();
        for beat in &hidden {
            self.inner().outbox().delete_heartbeat(&beat.relay).await?;
        }
        self.inner().outbox().append(&events).await?;
        for beat in &hidden {
            self.inner().outbox().heartbeat(&beat.relay, 60_000).await?;
        }
        Ok(())
    }

    async fn receive(&mut self, events: &[ReceivedEvent]) -> Result<(), StoreError> {
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let known = self.inner().outbox().outbox_by_event(&ids).await?;
        if self.has(Fault::ReceivedEventsConflict) && !known.is_empty() {
            self.failed = true;
            return Err(StoreError::Conflict { what: "event_id".into() });
        }
        let archived = self.inner().outbox().archived_by_event(&ids).await?;
        if self.has(Fault::ReceivedRowsAreNew) {
            let mut taken: BTreeSet<EventId> = known.into_iter().map(|row| row.event_id).collect();
            taken.extend(archived.into_iter().map(|event| event.event_id));
            let fresh = events.iter().filter(|event| taken.insert(event.event_id.clone()));
            let fresh: Vec<NewEvent> = fresh.map(as_new).collect();
            return self.inner().outbox().append(&fresh).await;
        }
        if self.has(Fault::ArchivedEventsAreReceivedAgain) {
            let again = |event: &&ReceivedEvent| archived.iter().any(|it| it.event_id == event.event_id);
            let again: Vec<NewEvent> = events.iter().filter(again).map(as_new).collect();
            self.inner().outbox().append(&again).await?;
        }
        self.inner().outbox().receive(events).await
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError> {
        let valid = self.inner().outbox().fence(owner, holds).await?;
        let all = holds.iter().map(|hold| hold.partition).collect();
        Ok(if self.has(Fault::FenceAlwaysSucceeds) { all } else { valid })
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let ids = confirmed.iter().map(|proof| proof.event_id().clone());
        self.shared.marked.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        self.inner().outbox().mark_sent(confirmed, now).await
    }

    async fn mark_sent_if_owned(
        &mut self,
        owner: &RelayId,
        holds: &[OwnedPartition],
        confirmed: &BTreeMap<Partition, Vec<Confirmed>>,
        now: DateTime<Utc>,
    ) -> Result<PartitionSet, StoreError> {
        if self.has(Fault::SentRowsAreNotFenced) {
            let ours = self.inner().outbox().fence(owner, holds).await?;
            let all: Vec<&Confirmed> = confirmed.values().flatten().collect();
            self.inner().outbox().mark_sent(&all, now).await?;
            return Ok(ours);
        }
        self.inner().outbox().mark_sent_if_owned(owner, holds, confirmed, now).await
    }

    async fn bring_retries_forward(
        &mut self,
        partitions: PartitionSet,
        beyond: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let ignores_bound = self.has(Fault::RetriesWithinBoundAreBroughtForward);
        let beyond = if ignores_bound { now } else { beyond };
        let takes_all = self.has(Fault::RetriesOfOtherPartitionsAreBroughtForward);
        let partitions = if takes_all { PartitionSet::ALL } else { partitions };
        let mut changed = self.inner().outbox().bring_retries_forward(partitions, beyond, now).await?;
        if self.has(Fault::RedrivenRowsAreBroughtForward) {
            let retries = OutboxFilter { status: Some(OutboxStatus::Retry), ..OutboxFilter::default() };
            let mut rows = self.inner().outbox().outbox_page(&retries, None, u32::MAX).await?;
            rows.retain(|row| row.next_retry_time.is_some_and(|due| due > beyond));
            rows.retain(|row| row.retry_count == 0 && partitions.contains(row.partition()));
            let due_now = |row: OutboxRow| FailedPublish {
                event_id: row.event_id,
                status: OutboxStatus::Retry,
                retry_count: row.retry_count,
                next_retry_time: Some(now),
                error: row.last_error.unwrap_or_default(),
            };
            let due_now: Vec<_> = rows.into_iter().map(due_now).collect();
            changed += self.inner().outbox().mark_failed(&due_now, now).await?;
        }
        Ok(changed)
    }
}

impl OperatorRepoWrapper for Unit {
    async fn redrive(
        &mut self,
        rows: &[Redrive],
        now: DateTime<Utc>,
    ) -> Result<Vec<RedrivenRow>, StoreError> {
        let events: Vec<_> = rows.iter().map(|row| row.event_id.clone()).collect();
        let before = self.inner().outbox().outbox_by_event(&events).await?;
        let mut moved = self.inner().outbox().redrive(rows, now).await?;
        for Redrive { event_id, due } in rows {
            let Some(row) = before.iter().find(|row| row.event_id == *event_id) else { continue };
            let again = FailedPublish {
                event_id: event_id.clone(),
                status: OutboxStatus::Retry,
                retry_count: row.retry_count,
                next_retry_time: Some(*due),
                error: row.last_error.clone().unwrap_or_default(),
            };
            let reported = RedrivenRow {
                tenant: row.aggregate.tenant,
                event_id: row.event_id.clone(),
                status: row.status,
                retry_count: row.retry_count,
                sent_time: row.sent_time,
            };
            if self.has(Fault::RedriveMovesNewRows) && row.status == OutboxStatus::New {
                if self.inner().outbox().mark_failed(&[again], now).await? > 0 {
                    moved.push(reported);
                }
            } else if self.has(Fault::RedriveReportsUnchangedRows) && row.status.is_pending() {
                moved.push(reported);
            } else if self.has(Fault::RedriveKeepsAttempts) && !moved.is_empty() && !row.status.is_pending() {
                self.inner().outbox().mark_failed(&[again], now).await?;
            }
        }
        Ok(moved)
    }

    async fn release(
        &mut self,
        aggregate: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let mut released = self.inner().outbox().release(aggregate, unordered, now).await?;
        if self.has(Fault::ReleaseReachesOtherTenants) {
            let all = self.inner().outbox().outbox_page(&OutboxFilter::default(), None, u32::MAX).await?;
            let others = all.into_iter().map(|row| row.aggregate);
            for other in others.filter(|other| (&other.kind, &other.id) == (&aggregate.kind, &aggregate.id)) {
                released += self.inner().outbox().release(&other, unordered, now).await?;
            }
        }
        if self.has(Fault::TextKeysAreReleasedByTheirNumber) {
            let number = AggregateRef { id: aggregate.id.number().into(), ..aggregate.clone() };
            released += self.inner().outbox().release(&number, unordered, now).await?;
        }
        Ok(released)
    }
}

/// The received event as one that this outbox publishes.
fn as_new(event: &ReceivedEvent) -> NewEvent {
    let event = event.clone();
    NewEvent {
        event_id: event.event_id,
        event_type: event.event_type,
        aggregate: event.aggregate,
        aggregate_seq: Some(event.aggregate_seq),
        payload: event.payload,
        metadata: event.metadata,
        occurred_at: event.occurred_at,
        max_retry_count: event.max_retry_count,
        idle_consumers: IdleConsumers::default(),
        routing_key: event.routing_key,
        due: None,
    }
}
