//! Selection of the outbox rows that may be published now.
//!
//! **Invariant:** the cost depends on the number of pending rows, not on the size of the table: one scan of a partial
//! index in id order, and at most three lookups in partial indexes per row; one while no row waits for a retry or is `FAILED`.

use chrono::{DateTime, Utc};
use handover_events::PartitionSet;
use handover_outbox::ports::{Due, DueQuery, OnFailed, StoreError, UnorderedTypes};

use super::outbox_table::OutboxTable;
use crate::dialect::{Dialect, padded, placeholders};
use crate::row::Row;
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

pub(super) const SAME: &str = "e.aggregate_type = o.aggregate_type AND e.aggregate_id = o.aggregate_id \
                    AND e.tenant_id = o.tenant_id";
pub(super) const EARLIER: &str =
    "(e.aggregate_seq < o.aggregate_seq OR (e.aggregate_seq = o.aggregate_seq AND e.id < o.id))";
pub(super) const LATER: &str =
    "(e.aggregate_seq > o.aggregate_seq OR (e.aggregate_seq = o.aggregate_seq AND e.id > o.id))";

/// Number of consecutive ids from which on they are left out by their bounds.
const MIN_RUN: usize = 8;

/// The condition that a row of the outbox is in one of the partitions. Its parameter is their [`mask`].
fn in_partition(alias: &str) -> String {
    format!("((? >> {alias}.partition_no) & 1) = 1")
}

/// The partitions as a bit mask: one parameter, so that the statement is the same for every set.
fn mask(partitions: PartitionSet) -> Value {
    let bits = partitions.iter().fold(0u64, |bits, partition| bits | (1 << partition.number()));
    Value::from(bits.cast_signed())
}

/// The condition that the event type in `column` is ordered. Its parameters are [`names`].
pub(super) fn is_ordered(column: &str, unordered: &UnorderedTypes) -> String {
    match unordered.names().len() {
        0 => "TRUE".to_owned(),
        types => format!("{column} NOT IN ({})", placeholders(types)),
    }
}

pub(super) fn names(unordered: &UnorderedTypes) -> impl Iterator<Item = Value> {
    unordered.names().map(Value::from)
}

/// The condition, with its parameters, that a row is none of these. The ids of a window are mostly consecutive, and PostgreSQL
/// compares each row with each id of a list.
fn not_in_flight(dialect: &dyn Dialect, ids: &[i64]) -> (String, Vec<Value>) {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let (runs, single): (Vec<_>, Vec<_>) =
        ids.chunk_by(|left, right| left + 1 == *right).partition(|run| run.len() >= MIN_RUN);
    let runs = padded(&runs);
    let single = padded(&single.concat());
    // MariaDB would search the ranges between the ids in the index.
    let id = dialect.unindexed("o.id");
    let mut sql = format!(" AND {id} NOT BETWEEN ? AND ?").repeat(runs.len());
    if !single.is_empty() {
        sql.push_str(&format!(" AND {id} NOT IN ({})", placeholders(single.len())));
    }
    let bounds = runs.iter().filter_map(|run| Some([*run.first()?, *run.last()?]));
    (sql, bounds.flatten().chain(single).map(Value::from).collect())
}

/// The condition that no row at all has this status. It is evaluated once per statement, before lookups per row.
fn none_is(dialect: &dyn Dialect, status: &str, condition: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM outbox_events n {index} WHERE n.status = {is}{condition})",
        index = dialect.index("idx_status_time"),
        is = dialect.opaque_literal(status),
    )
}

/// The condition, with its parameters, that a row is pending, due and not blocked by an earlier row of its aggregate.
pub(super) fn conditions(dialect: &dyn Dialect, query: &DueQuery) -> (String, Vec<Value>) {
    let DueQuery { partitions, now, on_failed, unordered, in_flight, from_id, .. } = query;
    let other_is_ordered = is_ordered("e.event_type", unordered);
    let (not_in_flight, in_flight_values) = not_in_flight(dialect, in_flight);
    let mut values = values![*now, mask(*partitions)];
    values.extend(in_flight_values);
    values.extend(names(unordered).chain(values![*now, *now]).chain(names(unordered)));
    // A search begins at a later id behind a backlog, or after a slow search. The cause may be a transaction that stays open: then
    // the condition would read the dead entries of all rows that were FAILED.
    let none_failed = if *from_id > 0 { "FALSE".to_owned() } else { none_is(dialect, "FAILED", "") };
    let mut sql = format!(
        "{pending} AND (o.next_retry_time IS NULL OR o.next_retry_time <= ?) AND {in_partition}{not_in_flight} \
         AND (NOT ({is_ordered}) OR (({none_waits} OR NOT EXISTS (SELECT 1 FROM outbox_events e {waiting} WHERE {SAME} \
           AND e.status = 'RETRY' AND e.next_retry_time > ? AND e.sent_time IS NULL AND {other_is_ordered} AND {EARLIER}))",
        pending = dialect.pending(),
        in_partition = in_partition("o"),
        is_ordered = is_ordered("o.event_type", unordered),
        none_waits = none_is(dialect, "RETRY", " AND n.next_retry_time > ?"),
        waiting = dialect.index("idx_outbox_waiting"),
    );
    match on_failed {
        OnFailed::Continue => {}
        OnFailed::Hold => {
            sql.push_str(&format!(
                " AND ({none_failed} OR NOT EXISTS (SELECT 1 FROM outbox_events e {failed} WHERE {SAME} \
                 AND e.status = 'FAILED' AND e.released_time IS NULL AND {other_is_ordered} AND {EARLIER}))",
                failed = dialect.index("idx_outbox_failed"),
            ));
            values.extend(names(unordered));
        }
    }
    sql.push_str("))");
    (sql, values)
}

/// The columns with the earliest `next_retry_time` after `now` of the pending rows of each status in the partitions.
fn next_due(dialect: &dyn Dialect, query: &DueQuery) -> (String, Vec<Value>) {
    let one = |status: &str, column: &str| {
        format!(
            "(SELECT n.next_retry_time FROM outbox_events n {index} WHERE n.status = {is} AND n.next_retry_time > ? \
             AND {in_partition} ORDER BY n.next_retry_time LIMIT 1) AS {column}",
            index = dialect.index("idx_status_time"),
            is = dialect.opaque_literal(status),
            in_partition = in_partition("n"),
        )
    };
    let columns = format!("{}, {}", one("NEW", "next_new"), one("RETRY", "next_retry"));
    let of_one = values![query.now, mask(query.partitions)];
    (columns, [of_one.clone(), of_one].concat())
}

/// The earlier of the times in the columns of [`next_due`]. A time that cannot be read is skipped: the pages of unreadable
/// rows report it with its row.
fn earliest(row: &Row) -> Option<DateTime<Utc>> {
    let row = OutboxTable::fields(row);
    ["next_new", "next_retry"].into_iter().filter_map(|column| row.opt_time(column).ok().flatten()).min()
}

/// The due rows in id order, each with the columns of [`next_due`]. `overtaken` is 1 if an earlier pending event of the same
/// aggregate has a greater id, or one that is left out.
pub(super) fn in_order_of_ids(dialect: &dyn Dialect, query: &DueQuery) -> (String, Vec<Value>) {
    let unordered = &query.unordered;
    let (next_due, mut values) = next_due(dialect, query);
    values.extend(names(unordered).chain(names(unordered)));
    let (conditions, condition_values) = conditions(dialect, query);
    let starts_later = query.from_id > 0;
    // PostgreSQL expects a third of the table behind one bound, but few rows between two.
    let (or_left_out, in_range) =
        if starts_later { (" OR e.id < ?", " AND o.id >= ? AND o.id <= ?") } else { ("", "") };
    if starts_later {
        values.push(query.from_id.into());
    }
    let sql = format!(
        "SELECT {columns}, {next_due}, CASE WHEN {is_ordered} AND EXISTS (SELECT 1 FROM outbox_events e {order} \
           WHERE {SAME} AND e.status IN ('NEW', 'RETRY') AND {other_is_ordered} \
           AND e.aggregate_seq < o.aggregate_seq AND ({id} > o.id{or_left_out})) THEN 1 ELSE 0 END AS overtaken \
         FROM outbox_events o {pending} WHERE {conditions}{in_range} ORDER BY o.id LIMIT ?",
        columns = OutboxTable::COLUMNS,
        is_ordered = is_ordered("o.event_type", unordered),
        order = dialect.index("idx_outbox_order"),
        other_is_ordered = is_ordered("e.event_type", unordered),
        pending = dialect.index("idx_outbox_pending"),
        id = dialect.unindexed("e.id"),
    );
    values.extend(condition_values);
    if starts_later {
        values.extend(values![query.from_id, i64::MAX]);
    }
    values.push(query.limit.into());
    (sql, values)
}

/// The due rows in a range of ids.
fn in_range(dialect: &dyn Dialect, query: &DueQuery, until_id: i64) -> (String, Vec<Value>) {
    let (conditions, mut values) = conditions(dialect, query);
    let sql = format!(
        "SELECT {columns} FROM outbox_events o {pending} WHERE {conditions} AND o.id >= ? AND o.id < ? ORDER BY o.id LIMIT ?",
        columns = OutboxTable::COLUMNS,
        pending = dialect.index("idx_outbox_pending"),
    );
    values.extend(values![query.from_id, until_id, query.limit]);
    (sql, values)
}

/// The due rows in the order of their aggregates: an earlier event with a greater id is placed directly before the
/// later event with the smaller id. Scans all pending rows.
fn in_order_of_aggregates(dialect: &dyn Dialect, query: &DueQuery) -> (String, Vec<Value>) {
    let mut values: Vec<Value> = names(&query.unordered).collect();
    let (conditions, condition_values) = conditions(dialect, query);
    let sql = format!(
        "WITH due AS (SELECT o.id, o.tenant_id, o.aggregate_type, o.aggregate_id, o.aggregate_seq, \
           CASE WHEN {is_ordered} THEN 0 ELSE o.id END AS unordered_id \
           FROM outbox_events o {pending} WHERE {conditions}), \
         ranked AS (SELECT id, aggregate_seq, min(id) OVER (PARTITION BY tenant_id, aggregate_type, aggregate_id, \
           unordered_id ORDER BY aggregate_seq DESC, id DESC) AS rank_id FROM due) \
         SELECT {columns} FROM ranked p JOIN outbox_events o ON o.id = p.id \
         ORDER BY p.rank_id, p.aggregate_seq, p.id LIMIT ?",
        columns = OutboxTable::COLUMNS,
        is_ordered = is_ordered("o.event_type", &query.unordered),
        pending = dialect.index("idx_outbox_pending"),
    );
    values.extend(condition_values);
    values.push(query.limit.into());
    (sql, values)
}

/// Number of unreadable rows that hide no others: all of them are read by each search.
const MAX_UNREADABLE: u32 = 5_000;

impl Session {
    /// The query plan of [`in_order_of_ids`], in the format of the engine.
    pub(super) async fn explain_due(&mut self, query: &DueQuery) -> Result<String, StoreError> {
        let (sql, values) = in_order_of_ids(self.dialect, query);
        let rows = self.fetch(&format!("{} {sql}", self.dialect.explain()), values).await?;
        Ok(rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    /// Unreadable rows are not due, and up to [`MAX_UNREADABLE`] do not count: otherwise as many as the limit would hide all rows
    /// behind them.
    pub(super) async fn due(&mut self, query: &DueQuery) -> Result<Due, StoreError> {
        let mut wider = query.clone();
        loop {
            let (rows, next) = self.due_rows(&wider).await?;
            let mut readable = self.readable(&rows, OutboxTable::read);
            let unreadable = u32::try_from(rows.len() - readable.len()).unwrap_or(u32::MAX);
            let has_more = rows.len() as u64 >= u64::from(wider.limit) && wider.limit < MAX_UNREADABLE;
            if !has_more || readable.len() as u64 >= u64::from(query.limit) {
                readable.truncate(query.limit as usize);
                return Ok(Due { rows: readable, next });
            }
            wider.limit = wider.limit.saturating_mul(2).max(query.limit.saturating_add(unreadable));
        }
    }

    async fn due_rows(&mut self, query: &DueQuery) -> Result<(Vec<Row>, Option<DateTime<Utc>>), StoreError> {
        let (sql, values) = in_order_of_ids(self.dialect, query);
        let mut rows = self.fetch(&sql, values).await?;
        let next = match rows.first() {
            Some(first) => earliest(first),
            None => {
                let (columns, values) = next_due(self.dialect, query);
                self.fetch_one(&format!("SELECT {columns}"), values).await?.as_ref().and_then(earliest)
            }
        };
        let mut overtaken = false;
        for row in &rows {
            overtaken |= OutboxTable::fields(row).flag("overtaken")?;
        }
        // An event that was repaired or inserted by SQL has a greater id than a later event of its aggregate. This is
        // rare, so the more expensive query is acceptable.
        if overtaken {
            let (sql, values) = in_order_of_aggregates(self.dialect, query);
            rows = self.fetch(&sql, values).await?;
        }
        Ok((rows, next))
    }

    pub(super) async fn due_ids(&mut self, query: &DueQuery, until_id: i64) -> Result<Vec<i64>, StoreError> {
        let mut query = query.clone();
        let mut found = Vec::new();
        loop {
            let (sql, values) = in_range(self.dialect, &query, until_id);
            let rows = self.fetch(&sql, values).await?;
            let readable = self.readable(&rows, OutboxTable::read);
            let unreadable = u32::try_from(rows.len() - readable.len()).unwrap_or(u32::MAX);
            found.extend(readable.iter().map(|row| row.id));
            // Unreadable rows are not due, and do not count.
            match rows.last() {
                Some(last) if unreadable > 0 && rows.len() as u64 >= u64::from(query.limit) => {
                    query.from_id = OutboxTable::fields(last).int("id")? + 1;
                    query.limit = unreadable;
                }
                _ => return Ok(found),
            }
        }
    }

    pub(super) async fn forward_retries(
        &mut self,
        partitions: PartitionSet,
        beyond: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let sql = format!(
            "UPDATE outbox_events AS o {index} SET next_retry_time = ?, update_time = ? \
             WHERE o.status = {retry} AND o.next_retry_time > ? AND o.retry_count > 0 AND {in_partition}",
            index = self.dialect.index("idx_status_time"),
            retry = self.dialect.opaque_literal("RETRY"),
            in_partition = in_partition("o"),
        );
        self.execute(&sql, values![now, now, beyond].into_iter().chain([mask(partitions)]).collect()).await
    }
}
