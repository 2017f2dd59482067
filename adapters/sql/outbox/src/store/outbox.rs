//! The outbox: appending events, recording their outcomes, reading rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, PartitionSet, TenantId};
use handover_outbox::ports::{
    Ahead, AheadQuery, ArchiveQueries, Backlog, Blocked, Confirmed, Due, DueQuery, FailedPublish,
    LeaseQueries, NewEvent, Numbered, OnFailed, OperatorQueries, OperatorRepo, OutboxCounts, OutboxFilter,
    OutboxQueries, OutboxRepo, OutboxRow, OwnedPartition, ReceivedEvent, Redrive, RedrivenRow, RelayId,
    StoreError, UnorderedTypes, UnreadableRow, older_relay,
};

use super::outbox_table::{OutboxTable, ReceivedTable, select};
use super::page::Page;
use super::sequences::append_statements;
use super::settling::{MAX_EVENTS, sent};
use crate::dialect::{Dialect, MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, is_aggregate_id, values};

/// Maximum number of failed publishes per statement: each one is a branch of its CASE expressions.
const FAILED_ROWS: usize = 32;

/// How the rows of a filter are found.
pub(super) enum Access {
    /// In the order of their ids.
    InOrder,
    /// By the id of their aggregate, which has one of these types.
    ByAggregate(Vec<String>),
}

impl Access {
    /// The beginning of the query, and the expression for the id.
    pub(super) fn select(&self, dialect: &dyn Dialect) -> (String, &'static str) {
        match self {
            Access::InOrder => (select(), "o.id"),
            // The few rows of an aggregate are found first and then sorted: `+ 0` prevents a scan in the order of ids.
            Access::ByAggregate(_) => {
                (format!("{} {}", select(), dialect.index("idx_aggregate")), "o.id + 0")
            }
        }
    }
}

/// Adds the conditions of a filter to a page.
pub(super) fn filtered(page: Page, filter: &OutboxFilter, access: &Access) -> Page {
    // Nearly every row is SENT. With the index on the status, almost the whole table would have to be sorted by id, so
    // COALESCE excludes this index.
    let status_condition = match filter.status {
        Some(OutboxStatus::Sent) => "COALESCE(o.status, '') = ?",
        Some(OutboxStatus::New | OutboxStatus::Retry | OutboxStatus::Failed) | None => "o.status = ?",
    };
    // An index on a type would find every row of the type, also outside of the ids that are searched, and sort them.
    let unindexed = |column: &str| format!("COALESCE({column}, {column})");
    let page = match filter.aggregate_id.as_ref().map(|id| is_aggregate_id("o.", id)) {
        None => page,
        Some((condition, values)) => page.and(&condition, values),
    };
    let page = match access {
        Access::InOrder => {
            page.with(&format!("{} = ?", unindexed("o.aggregate_type")), filter.aggregate_type.as_ref())
        }
        Access::ByAggregate(types) => {
            let types = padded(types);
            let condition = format!("o.aggregate_type IN ({})", placeholders(types.len()));
            page.and(&condition, types.into_iter().map(Value::from))
        }
    };
    page.with("o.id > ?", filter.above_id)
        .with("o.id < ?", filter.below_id)
        .with("o.tenant_id = ?", filter.tenant.map(TenantId::get))
        .with(status_condition, filter.status.map(OutboxStatus::as_str))
        .with(&format!("{} = ?", unindexed("o.event_type")), filter.event_type.as_ref())
        .with(&format!("{} >= ?", unindexed("o.create_time")), filter.from)
        .with(&format!("{} < ?", unindexed("o.create_time")), filter.to)
}

impl Session {
    /// A page of the rows that match a filter. Continues after unreadable rows, because callers treat a short page
    /// as the last page.
    async fn page(
        &mut self,
        most: u32,
        mut bound: Option<i64>,
        page: fn(&str, &'static str, Option<i64>) -> Page,
        filter: &OutboxFilter,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let access = match (&filter.aggregate_id, &filter.aggregate_type) {
            (None, _) => Access::InOrder,
            (Some(_), Some(aggregate_type)) => Access::ByAggregate(vec![aggregate_type.clone()]),
            (Some(_), None) => Access::ByAggregate(self.aggregate_types().await?),
        };
        if matches!(&access, Access::ByAggregate(types) if types.is_empty()) {
            return Ok(Vec::new());
        }
        let (select, id) = access.select(self.dialect);
        let mut found = Vec::new();
        loop {
            let missing = most.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            let (sql, values) = filtered(page(&select, id, bound), filter, &access).limit(missing);
            let rows = self.fetch(&sql, values).await?;
            let before = found.len();
            found.extend(self.readable(&rows, OutboxTable::read));
            let all_read = found.len() - before == rows.len();
            if all_read || rows.len() < missing as usize {
                return Ok(found);
            }
            bound = rows.last().map(|row| row.int("id")).transpose()?;
        }
    }

    /// The aggregate types of all rows. Each one costs a search of the index.
    async fn aggregate_types(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = format!(
            "SELECT o.aggregate_type FROM outbox_events o {} WHERE o.aggregate_type > ? ORDER BY o.aggregate_type LIMIT 1",
            self.dialect.index("idx_aggregate")
        );
        let mut types: Vec<String> = Vec::new();
        loop {
            let after = types.last().cloned().unwrap_or_default();
            match self.fetch_one(&sql, values![after]).await? {
                Some(row) => types.push(row.text("aggregate_type")?.to_owned()),
                None => return Ok(types),
            }
        }
    }
}

#[async_trait]
impl OutboxQueries for Session {
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Due, StoreError> {
        self.due(query).await
    }

    async fn outbox_due_ids(&mut self, query: &DueQuery, until_id: i64) -> Result<Vec<i64>, StoreError> {
        self.due_ids(query, until_id).await
    }

    async fn outbox_ahead(&mut self, query: &AheadQuery) -> Result<Ahead, StoreError> {
        self.ahead(query).await
    }

    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        let mut found = Vec::with_capacity(events.len());
        for events in events.chunks(MAX_ROWS) {
            let events = padded(events);
            let sql = format!("{} WHERE o.event_id IN ({})", select(), placeholders(events.len()));
            let rows = self.fetch(&sql, events.iter().map(Value::from).collect()).await?;
            found.extend(self.readable(&rows, OutboxTable::read));
        }
        // Removes duplicates: an event id that occurs in two chunks is read twice.
        found.sort_by_key(|row| row.id);
        found.dedup_by_key(|row| row.id);
        Ok(found)
    }

    async fn outbox_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<OutboxRow>, StoreError> {
        self.rows_about(aggregates).await
    }
}

#[async_trait]
impl OperatorQueries for Session {
    async fn outbox_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.page(most, before, Page::below, filter).await
    }

    async fn outbox_after(
        &mut self,
        filter: &OutboxFilter,
        after: Option<i64>,
        most: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.page(most, after, Page::above, filter).await
    }

    async fn blocked_page(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        self.blocked(unordered, tenant, before, most).await
    }

    async fn waiting_page(
        &mut self,
        unordered: &UnorderedTypes,
        on_failed: OnFailed,
        tenant: Option<TenantId>,
        now: DateTime<Utc>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        self.waiting(unordered, on_failed, tenant, now, before, most).await
    }

    async fn unreadable_rows(
        &mut self,
        tenant: Option<TenantId>,
        after: Option<i64>,
        most: u32,
    ) -> Result<Vec<UnreadableRow>, StoreError> {
        self.unreadable(tenant, after, most).await
    }

    async fn outbox_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<OutboxCounts, StoreError> {
        self.count_rows(tenant, max_ids).await
    }

    async fn outbox_backlog(&mut self, ids: Range<i64>, now: DateTime<Utc>) -> Result<Backlog, StoreError> {
        self.count_backlog(ids, now).await
    }

    async fn unreleased_failed_rows(&mut self) -> Result<u64, StoreError> {
        self.count_unreleased().await
    }
}

#[async_trait]
impl OutboxRepo for Session {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        if events.iter().any(|event| event.aggregate.id.key().is_some()) && !self.shared.accepts_text_keys() {
            let now = self.now().await?;
            if let Some(older) = older_relay(&self.heartbeats().await?, now) {
                return Err(StoreError::Unavailable(Box::new(older)));
            }
            self.shared.accept_text_keys();
        }
        if events.iter().all(|event| event.aggregate_seq.is_some()) {
            self.insert_into::<OutboxTable>(OutboxTable::rows(events), "").await?;
        } else {
            for (sql, values) in append_statements(self.dialect, events) {
                self.execute(&sql, values).await?;
            }
        }
        self.appended(
            events.iter().map(|event| Partition::of(event.aggregate.tenant, event.aggregate.id.number())),
        );
        Ok(())
    }

    async fn receive(&mut self, events: &[ReceivedEvent]) -> Result<(), StoreError> {
        let unless_exists = self.dialect.or_keep("event_id", &["event_id"]);
        self.insert_into::<ReceivedTable>(ReceivedTable::rows(events), &unless_exists).await?;
        // The archive is read after the insert: an event that leaves the outbox in between is found here.
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let archived = self.archived_by_event(&ids).await?;
        for archived in archived.chunks(MAX_ROWS) {
            let archived = padded(archived);
            let sql =
                format!("DELETE FROM outbox_events WHERE event_id IN ({})", placeholders(archived.len()));
            self.execute(&sql, archived.iter().map(|event| Value::from(&event.event_id)).collect()).await?;
        }
        Ok(())
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError> {
        Ok(self.still_owned(owner, holds).await?.into_iter().map(|owned| owned.partition).collect())
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let events: Vec<&EventId> = confirmed.iter().map(|one| one.event_id()).collect();
        let mut moved = 0;
        for events in events.chunks(MAX_EVENTS) {
            let (sql, values) = sent(self.dialect, events, now);
            moved += self.execute(&sql, values).await?;
        }
        Ok(moved)
    }

    async fn mark_sent_if_owned(
        &mut self,
        owner: &RelayId,
        holds: &[OwnedPartition],
        confirmed: &BTreeMap<Partition, Vec<Confirmed>>,
        now: DateTime<Utc>,
    ) -> Result<PartitionSet, StoreError> {
        let events: Vec<&EventId> = confirmed.values().flatten().map(Confirmed::event_id).collect();
        if (1..=MAX_EVENTS).contains(&events.len())
            && !holds.is_empty()
            && let Some(ours) = self.fenced_sent(owner, holds, &events, now).await?
        {
            return Ok(ours);
        }
        let ours = self.fence(owner, holds).await?;
        let events = confirmed.iter().filter(|(partition, _)| ours.contains(**partition));
        self.mark_sent(&events.flat_map(|(_, list)| list).collect::<Vec<_>>(), now).await?;
        Ok(ours)
    }

    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        if failed.iter().any(|publish| matches!(publish.status, OutboxStatus::New | OutboxStatus::Sent)) {
            return Err(self.refuse("the new status of a failed publish must be RETRY or FAILED"));
        }
        let events: BTreeSet<&EventId> = failed.iter().map(|publish| &publish.event_id).collect();
        // One statement cannot update a row twice. If an event occurs twice in `failed`, each statement updates only
        // one row.
        let rows = if events.len() == failed.len() { FAILED_ROWS } else { 1 };
        let mut moved = 0;
        let by_event = self.dialect.index("uk_event_id");
        let status = self.dialect.unindexed("status");
        for failed in failed.chunks(rows) {
            let failed = padded(failed);
            let case = format!("CASE event_id {}END", "WHEN ? THEN ? ".repeat(failed.len()));
            let sql = format!(
                "UPDATE outbox_events {by_event} SET status = {case}, retry_count = {case}, next_retry_time = {case}, \
                 last_error = {case}, update_time = ? WHERE event_id IN ({}) AND {status} IN ('NEW', 'RETRY')",
                placeholders(failed.len())
            );
            let mut values = Vec::with_capacity(failed.len() * 9 + 1);
            values.extend(
                failed.iter().flat_map(|publish| values![&publish.event_id, publish.status.as_str()]),
            );
            values.extend(failed.iter().flat_map(|publish| values![&publish.event_id, publish.retry_count]));
            values.extend(
                failed.iter().flat_map(|publish| values![&publish.event_id, publish.next_retry_time]),
            );
            values.extend(failed.iter().flat_map(|publish| values![&publish.event_id, &publish.error]));
            values.push(now.into());
            values.extend(failed.iter().map(|publish| Value::from(&publish.event_id)));
            moved += self.execute(&sql, values).await?;
        }
        Ok(moved)
    }

    async fn bring_retries_forward(
        &mut self,
        partitions: PartitionSet,
        beyond: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        self.forward_retries(partitions, beyond, now).await
    }
}

#[async_trait]
impl OperatorRepo for Session {
    async fn redrive(
        &mut self,
        rows: &[Redrive],
        now: DateTime<Utc>,
    ) -> Result<Vec<RedrivenRow>, StoreError> {
        self.redrive_rows(rows, now).await
    }

    async fn release(
        &mut self,
        aggregate: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        self.release_rows(aggregate, unordered, now).await
    }
}
