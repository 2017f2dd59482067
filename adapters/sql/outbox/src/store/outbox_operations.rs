//! Queries and changes of the outbox by operators.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, Partition, TenantId};
use handover_outbox::ports::{
    Backlog, Blocked, Numbered, OnFailed, OutboxCounts, OutboxRow, Redrive, RedrivenRow, StoreError,
    UnorderedTypes, UnreadableRow,
};

use super::outbox_due::{EARLIER, LATER, SAME, is_ordered, names};
use super::outbox_table::{OutboxTable, select};
use super::page::{NewestIds, Page};
use crate::dialect::{Dialect, LookUp, MAX_ROWS, padded, placeholders};
use crate::row::Row;
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, is_aggregate, values};

/// Maximum number of redriven rows per statement: each one is a branch of its CASE expression.
const REDRIVEN_ROWS: usize = 32;

/// Number of rows per page of the search for unreadable rows.
const SEARCHED_ROWS: u32 = 1_000;

/// Every outbox row of aggregates of one tenant and type, in any order.
pub(super) fn about(dialect: &dyn Dialect, tenant: i64, kind: &str, ids: &[i64]) -> (String, Vec<Value>) {
    dialect.look_up(LookUp {
        columns: OutboxTable::COLUMNS,
        from: format!("outbox_events o {}", dialect.index("idx_aggregate")),
        column: "o.aggregate_id",
        keys: padded(ids).into_iter().map(Value::from).collect(),
        conditions: "o.aggregate_type = ? AND o.tenant_id = ?".to_owned(),
        values: values![kind, tenant],
        ..LookUp::default()
    })
}

/// The first `FAILED` row of each blocked aggregate, with the number of later rows that it blocks.
pub(super) fn blocked(
    dialect: &dyn Dialect,
    unordered: &UnorderedTypes,
    tenant: Option<TenantId>,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let other_is_ordered = is_ordered("e.event_type", unordered);
    let failed = dialect.index("idx_outbox_failed");
    // A scalar subquery excludes rows with earlier failed rows: it is executed row by row until the page is full.
    // PostgreSQL would convert NOT EXISTS to a join and plan it for the whole table.
    let select = format!(
        "SELECT {columns}, (SELECT count(*) FROM outbox_events e {order} WHERE {SAME} \
           AND e.status IN ('NEW', 'RETRY') AND {other_is_ordered} AND {LATER}) AS held \
         FROM outbox_events o {all_failed}",
        columns = OutboxTable::COLUMNS,
        order = dialect.index("idx_outbox_order"),
        all_failed = dialect.failed(),
    );
    Page::below(&select, "o.id", before)
        .bind_select(names(unordered))
        .with("o.tenant_id = ?", tenant.map(TenantId::get))
        .and(
            &format!(
                "o.status = 'FAILED' AND o.released_time IS NULL AND {is_ordered} \
                 AND (SELECT e.id FROM outbox_events e {failed} WHERE {SAME} AND e.status = 'FAILED' \
                 AND e.released_time IS NULL AND {other_is_ordered} AND {EARLIER} LIMIT 1) IS NULL",
                is_ordered = is_ordered("o.event_type", unordered),
            ),
            names(unordered).chain(names(unordered)),
        )
        .limit(most)
}

/// Per aggregate, the first pending row that was never sent, if it waits for its retry time, with the number of later
/// pending rows. `Hold` excludes the aggregates of [`blocked`].
pub(super) fn waiting(
    dialect: &dyn Dialect,
    unordered: &UnorderedTypes,
    on_failed: OnFailed,
    tenant: Option<TenantId>,
    now: DateTime<Utc>,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let other_is_ordered = is_ordered("e.event_type", unordered);
    let order = dialect.index("idx_outbox_order");
    let others = format!(
        "FROM outbox_events e {order} WHERE {SAME} AND e.status IN ('NEW', 'RETRY') AND {other_is_ordered}"
    );
    let select = format!(
        "SELECT {columns}, (SELECT count(*) {others} AND {LATER}) AS held FROM outbox_events o {pending}",
        columns = OutboxTable::COLUMNS,
        pending = dialect.index("idx_outbox_pending"),
    );
    let page = Page::below(&select, "o.id", before)
        .bind_select(names(unordered))
        .with("o.tenant_id = ?", tenant.map(TenantId::get))
        .with("o.next_retry_time > ?", Some(now))
        .and(
            &format!(
                "{pending} AND o.sent_time IS NULL AND {is_ordered} \
                 AND (SELECT e.id {others} AND e.sent_time IS NULL AND {EARLIER} LIMIT 1) IS NULL",
                pending = dialect.pending(),
                is_ordered = is_ordered("o.event_type", unordered),
            ),
            names(unordered).chain(names(unordered)),
        );
    match on_failed {
        OnFailed::Continue => page,
        OnFailed::Hold => page.and(
            &format!(
                "(SELECT e.id FROM outbox_events e {failed} WHERE {SAME} AND e.status = 'FAILED' \
                 AND e.released_time IS NULL AND {other_is_ordered} LIMIT 1) IS NULL",
                failed = dialect.index("idx_outbox_failed"),
            ),
            names(unordered),
        ),
    }
    .limit(most)
}

/// The number of rows for each status, with the time of the oldest pending one; `SENT` rows with the newest ids only. It is
/// one statement, so that a row whose status changes is counted once.
pub(super) fn counts(
    dialect: &dyn Dialect,
    tenant: Option<TenantId>,
    newest: &NewestIds,
) -> (String, Vec<Value>) {
    let tenant = tenant.map(TenantId::get);
    let of_tenant = |alias: &str| match tenant {
        None => String::new(),
        Some(_) => format!("AND {alias}.tenant_id = ?"),
    };
    let sql = format!(
        "SELECT count(CASE WHEN o.status = 'NEW' THEN 1 END) AS new_events, \
         count(CASE WHEN o.status = 'RETRY' THEN 1 END) AS retries, \
         min(CASE WHEN o.sent_time IS NULL THEN o.create_time END) AS oldest, \
         (SELECT count(*) FROM outbox_events f {by_status} WHERE f.status = 'FAILED' {failed_of_tenant}) AS failed, \
         (SELECT count(*) FROM outbox_events s {by_id} \
         WHERE {is_newest} AND {status} = 'SENT' {sent_of_tenant}) AS sent \
         FROM outbox_events o {pending} WHERE {is_pending} {pending_of_tenant}",
        // The index of failed rows leaves out released ones.
        by_status = dialect.index("idx_status_time"),
        failed_of_tenant = of_tenant("f"),
        by_id = dialect.primary_key(),
        is_newest = NewestIds::contain("s"),
        status = dialect.unindexed("s.status"),
        sent_of_tenant = of_tenant("s"),
        pending = dialect.index("idx_outbox_pending"),
        is_pending = dialect.pending(),
        pending_of_tenant = of_tenant("o"),
    );
    let tenant = || tenant.map(Value::from);
    let mut values: Vec<Value> = tenant().into_iter().collect();
    values.extend(newest.values());
    values.extend(tenant().into_iter().chain(tenant()));
    (sql, values)
}

/// Decodes a row of [`blocked`] or [`waiting`].
fn blocked_row(row: &Row) -> Result<Numbered<Blocked>, StoreError> {
    let held = OutboxTable::fields(row).id("held")?;
    let row = OutboxTable::read(row)?;
    let blocked = Blocked {
        aggregate: row.aggregate,
        event_id: row.event_id,
        event_type: row.event_type,
        last_error: row.last_error,
        since: row.update_time,
        until: row.status.is_pending().then_some(row.next_retry_time).flatten(),
        held,
    };
    Ok(Numbered { id: row.id, effect: blocked })
}

/// The row, if one of its values cannot be read.
fn unreadable_row(row: &Row) -> Option<Result<UnreadableRow, StoreError>> {
    let fields = OutboxTable::fields(row);
    match OutboxTable::read(row) {
        Ok(_) => None,
        Err(StoreError::Corrupt { column, why, .. }) => Some(fields.int("id").map(|id| UnreadableRow {
            id,
            tenant: fields.id("tenant_id").ok(),
            event_id: fields.named("event_id").ok(),
            column,
            why,
        })),
        Err(error) => Some(Err(error)),
    }
}

impl Session {
    pub(super) async fn rows_about(
        &mut self,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let mut ids: BTreeMap<(i64, &str), Vec<i64>> = BTreeMap::new();
        for aggregate in aggregates {
            ids.entry((aggregate.tenant.get(), &aggregate.kind)).or_default().push(aggregate.id.number());
        }
        let mut found = Vec::new();
        for ((tenant, kind), mut ids) in ids {
            ids.sort_unstable();
            ids.dedup();
            for ids in ids.chunks(MAX_ROWS) {
                let (sql, values) = about(self.dialect, tenant, kind, ids);
                let rows = self.fetch(&sql, values).await?;
                found.extend(self.readable(&rows, OutboxTable::read));
            }
        }
        // The number of an id may also be the hash of another aggregate's text key.
        let wanted: BTreeSet<&AggregateRef> = aggregates.iter().collect();
        found.retain(|row| wanted.contains(&row.aggregate));
        found.sort_by(|a, b| {
            a.aggregate.cmp(&b.aggregate).then_with(|| (a.aggregate_seq, a.id).cmp(&(b.aggregate_seq, b.id)))
        });
        Ok(found)
    }

    pub(super) async fn blocked(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        let (sql, values) = blocked(self.dialect, unordered, tenant, before, most);
        let rows = self.fetch(&sql, values).await?;
        Ok(self.readable(&rows, blocked_row))
    }

    pub(super) async fn waiting(
        &mut self,
        unordered: &UnorderedTypes,
        on_failed: OnFailed,
        tenant: Option<TenantId>,
        now: DateTime<Utc>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError> {
        let (sql, values) = waiting(self.dialect, unordered, on_failed, tenant, now, before, most);
        let rows = self.fetch(&sql, values).await?;
        Ok(self.readable(&rows, blocked_row))
    }

    pub(super) async fn unreadable(
        &mut self,
        tenant: Option<TenantId>,
        mut after: Option<i64>,
        most: u32,
    ) -> Result<Vec<UnreadableRow>, StoreError> {
        let mut found = Vec::new();
        loop {
            let (sql, values) = Page::above(&select(), "o.id", after).limit(SEARCHED_ROWS);
            let rows = self.fetch(&sql, values).await?;
            for row in rows.iter().filter_map(unreadable_row) {
                let row = row?;
                if found.len() < most as usize && (tenant.is_none() || row.tenant == tenant) {
                    found.push(row);
                }
            }
            if found.len() >= most as usize || rows.len() < SEARCHED_ROWS as usize {
                return Ok(found);
            }
            after = rows.last().map(|row| row.int("id")).transpose()?;
        }
    }

    pub(super) async fn count_rows(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<OutboxCounts, StoreError> {
        let newest = self.newest_ids("outbox_events", max_ids).await?;
        let (sql, values) = counts(self.dialect, tenant, &newest);
        let Some(row) = self.fetch_one(&sql, values).await? else { return Ok(OutboxCounts::default()) };
        let row = row.of("outbox_events", "status");
        Ok(OutboxCounts {
            new: row.id("new_events")?,
            retry: row.id("retries")?,
            sent: row.id("sent")?,
            more_sent: newest.has_older,
            failed: row.id("failed")?,
            // An unreadable time may be the earliest, so the oldest pending row is then unknown.
            oldest_pending: row.opt_time("oldest").unwrap_or_default(),
        })
    }

    pub(super) async fn count_backlog(
        &mut self,
        ids: Range<i64>,
        now: DateTime<Utc>,
    ) -> Result<Backlog, StoreError> {
        let sql = format!(
            "SELECT count(CASE WHEN b.status = 'NEW' THEN 1 END) AS new_events, \
             count(CASE WHEN b.status = 'RETRY' THEN 1 END) AS retries, \
             min(CASE WHEN b.next_retry_time IS NULL THEN b.create_time \
             WHEN b.next_retry_time <= ? THEN b.next_retry_time END) AS oldest \
             FROM (SELECT o.status, o.create_time, o.next_retry_time FROM outbox_events o {index} \
             WHERE {is_pending} AND o.id >= ? AND o.id < ? ORDER BY o.id) b",
            index = self.dialect.index("idx_outbox_pending"),
            is_pending = self.dialect.pending(),
        );
        let rows = self.fetch(&sql, values![now, ids.start, ids.end]).await?;
        let Some(row) = rows.first() else { return Ok(Backlog::default()) };
        let counts = row.of("outbox_events", "status");
        Ok(Backlog {
            new: counts.id("new_events")?,
            retry: counts.id("retries")?,
            // An unreadable time may be the earliest, so the oldest due row is then unknown.
            oldest_due: row.of("outbox_events", "next_retry_time").opt_time("oldest").unwrap_or_default(),
        })
    }

    pub(super) async fn count_unreleased(&mut self) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) AS failed FROM outbox_events o {index} WHERE o.status = 'FAILED' AND o.released_time IS NULL",
            index = self.dialect.failed(),
        );
        match self.fetch_one(&sql, Vec::new()).await? {
            Some(row) => row.of("outbox_events", "status").id("failed"),
            None => Ok(0),
        }
    }

    pub(super) async fn redrive_rows(
        &mut self,
        rows: &[Redrive],
        now: DateTime<Utc>,
    ) -> Result<Vec<RedrivenRow>, StoreError> {
        // If an event is requested twice, the first request applies; after it the row is pending.
        let mut due: BTreeMap<&EventId, DateTime<Utc>> = BTreeMap::new();
        for row in rows {
            due.entry(&row.event_id).or_insert(row.due);
        }
        let due: Vec<_> = due.into_iter().collect();
        let by_event = self.dialect.index("uk_event_id");
        let mut moved = Vec::new();
        for due in due.chunks(REDRIVEN_ROWS) {
            let settled = self.settled_rows(due.iter().map(|(event, _)| *event)).await?;
            let due = padded(due);
            let case = format!("CASE event_id {}END", "WHEN ? THEN ? ".repeat(due.len()));
            let sql = format!(
                "UPDATE outbox_events {by_event} SET status = 'RETRY', retry_count = 0, next_retry_time = {case}, \
                 released_time = NULL, update_time = ? \
                 WHERE event_id IN ({}) AND {status} IN ('SENT', 'FAILED')",
                placeholders(due.len()),
                status = self.dialect.unindexed("status"),
            );
            let mut values: Vec<Value> = due.iter().flat_map(|(event, due)| values![*event, *due]).collect();
            values.push(now.into());
            values.extend(due.iter().map(|(event, _)| Value::from(*event)));
            self.execute(&sql, values).await?;
            for (partition, row) in settled {
                self.appended(std::iter::once(partition));
                moved.push(row);
            }
        }
        moved.sort_by(|left, right| left.event_id.cmp(&right.event_id));
        Ok(moved)
    }

    /// Locks and reads the rows of these events that are `SENT` or `FAILED`, each with its partition.
    async fn settled_rows(
        &mut self,
        events: impl Iterator<Item = &EventId>,
    ) -> Result<Vec<(Partition, RedrivenRow)>, StoreError> {
        let events = padded(&events.collect::<Vec<_>>());
        let sql = format!(
            "SELECT o.id, o.event_id, o.tenant_id, o.aggregate_id, o.status, o.retry_count, o.sent_time \
             FROM outbox_events o {by_event} \
             WHERE o.event_id IN ({}) AND {status} IN ('SENT', 'FAILED') {}",
            placeholders(events.len()),
            self.dialect.for_update(),
            status = self.dialect.unindexed("o.status"),
            by_event = self.dialect.index("uk_event_id"),
        );
        let rows = self.fetch(&sql, events.into_iter().map(Value::from).collect()).await?;
        let settled = |row: &Row| {
            let row = OutboxTable::fields(row);
            let tenant = row.id("tenant_id")?;
            let before = RedrivenRow {
                tenant,
                event_id: row.named("event_id")?,
                status: row.named("status")?,
                retry_count: row.count("retry_count")?,
                sent_time: row.opt_time("sent_time")?,
            };
            Ok((Partition::of(tenant, row.int("aggregate_id")?), before))
        };
        rows.iter().map(settled).collect()
    }

    pub(super) async fn release_rows(
        &mut self,
        of: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let (condition, aggregate) = is_aggregate("", of);
        let sql = format!(
            "UPDATE outbox_events {failed} SET released_time = ?, update_time = ? WHERE {condition} \
             AND status = 'FAILED' AND released_time IS NULL AND {is_ordered}",
            failed = self.dialect.index("idx_outbox_failed"),
            is_ordered = is_ordered("event_type", unordered),
        );
        let values = values![now, now].into_iter().chain(aggregate).chain(names(unordered)).collect();
        let released = self.execute(&sql, values).await?;
        if released > 0 {
            self.appended(std::iter::once(Partition::of(of.tenant, of.id.number())));
        }
        Ok(released)
    }
}
