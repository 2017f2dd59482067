//! Queries on the consume log.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, EventId, TenantId};
use handover_outbox::ports::{
    ConsumeCount, ConsumeCounts, ConsumeQueries, ConsumeRecord, Consumed, ConsumedFilter,
    ConsumerSubscription, Consumption, Numbered, OutboxRow, RegisteredType, StoreError, Unapplied,
};

use super::order_gate::{Gate, concerned, in_order, join_record, of_type, quoted, unapplied};
use super::outbox_table::OutboxTable;
use super::page::{NewestIds, Page};
use crate::dialect::{Dialect, MAX_ROWS, padded, placeholders};
use crate::row::{Fields, Row};
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::{Value, is_aggregate, values};

const RECORD: &str = "event_id, status, attempts, next_retry_time, lease_until, error_message, consume_time";

fn record(row: Fields<'_>) -> Result<ConsumeRecord, StoreError> {
    Ok(ConsumeRecord {
        status: row.named("status")?,
        attempts: row.count("attempts")?,
        next_retry_time: row.opt_time("next_retry_time")?,
        lease_until: row.opt_time("lease_until")?,
        error_message: row.opt_string("error_message")?,
        consume_time: row.time("consume_time")?,
    })
}

table! {
    pub(super) ConsumeLogTable("event_consume_log" by "event_id"),
    read row as Consumed, write one as &'a Consumption;
    insert {
        consumer: string("consumer" = &one.consumer),
        event_id: named("event_id" = &one.event_id),
    }
    update {
        event_type: string("event_type" = &one.event_type),
        aggregate: (row.aggregate())(
            "tenant_id" = one.aggregate.tenant.get(),
            "aggregate_type" = &one.aggregate.kind,
            "aggregate_id" = one.aggregate.id.number(),
            "aggregate_key" = one.aggregate.id.key()
        ),
        aggregate_seq: int("aggregate_seq" = one.aggregate_seq),
        record: (record(row))(
            "status" = one.status.as_str(),
            "attempts" = one.attempts,
            "next_retry_time" = one.next_retry_time,
            "lease_until" = one.lease_until,
            "error_message" = &one.error_message,
            "consume_time" = one.consume_time
        ),
        idempotency_key: opt_string("idempotency_key" = &one.idempotency_key),
        consume_result: opt_string("consume_result" = &one.consume_result),
        payload_hash: string("payload_hash" = &one.payload_hash),
        trace_id: string("trace_id" = &one.trace_id),
        cost_ms: int("cost_ms" = one.cost_ms),
    }
}

table! {
    pub(super) RegisteredTypeTable("outbox_consumer_types" by "consumer"),
    read row as RegisteredType, write registered as &'a RegisteredType;
    insert {
        consumer: string("consumer" = &registered.consumer),
        event_type: string("event_type" = &registered.event_type),
    }
    update {
        alive_until: time("alive_until" = registered.alive_until),
    }
}

table! {
    pub(super) SubscriptionTable("outbox_consumer_subscriptions" by "consumer"),
    read row as ConsumerSubscription, write new as (&'a str, &'a ConsumerSubscription);
    insert {
        after_id: (row.int("after_id"))("consumer" = new.0, "after_id" = new.1.after_id),
    }
    update {
        checked_until: time("checked_until" = new.1.checked_until),
    }
}

/// The subscription of a consumer, whose name is bound.
pub(super) fn subscription() -> String {
    let columns = SubscriptionTable::COLUMNS;
    format!("SELECT {columns} FROM outbox_consumer_subscriptions WHERE consumer = ?")
}

fn select() -> String {
    format!("SELECT id, {} FROM event_consume_log", ConsumeLogTable::COLUMNS)
}

/// Every consume-log record of these events.
pub(super) fn of_events(events: &[EventId]) -> (String, Vec<Value>) {
    let events = padded(events);
    let sql = format!("{} WHERE event_id IN ({})", select(), placeholders(events.len()));
    (sql, events.iter().map(Value::from).collect())
}

/// The predicate of the partial index idx_consume_open, word for word; otherwise SQLite does not use it.
const OPEN: &str = "status IN ('PROCESSING', 'WAITING', 'FAILED', 'DEAD')";

/// The number of records for each consumer and status; `SUCCESS` records with the newest ids only.
pub(super) fn counts(
    dialect: &dyn Dialect,
    tenant: Option<TenantId>,
    newest: &NewestIds,
) -> (String, Vec<Value>) {
    let tenant = tenant.map(TenantId::get);
    let of_tenant = match tenant {
        None => String::new(),
        Some(_) => format!("AND {} = ?", dialect.unindexed("l.tenant_id")),
    };
    let count = |index: &str, condition: &str| {
        format!(
            "SELECT l.consumer, l.status, count(*) AS events FROM event_consume_log l {index} \
             WHERE {condition} {of_tenant} GROUP BY l.consumer, l.status"
        )
    };
    let open = count(&dialect.index("idx_consume_open"), &format!("l.{OPEN}"));
    let applied = count(
        dialect.primary_key(),
        &format!("{} AND {} = 'SUCCESS'", NewestIds::contain("l"), dialect.unindexed("l.status")),
    );
    let mut values: Vec<Value> = tenant.map(Value::from).into_iter().collect();
    values.extend(newest.values());
    values.extend(tenant.map(Value::from));
    (format!("{open} UNION ALL {applied}"), values)
}

pub(super) fn page(
    dialect: &dyn Dialect,
    filter: &ConsumedFilter,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    // The few records of one event are found by the event id and then sorted: `id + 0` prevents a scan in id order. All
    // other pages are read in id order.
    let id = if filter.event_id.is_some() { "id + 0" } else { "id" };
    let is = |column| format!("{} = ?", dialect.unindexed(column));
    // In a range of ids another index would find records outside of the range.
    let by_id = if filter.above_id.is_some() { dialect.primary_key() } else { "" };
    let page = Page::below(&format!("{} {by_id}", select()), id, before)
        .with(&format!("{id} > ?"), filter.above_id)
        .with(&is("tenant_id"), filter.tenant.map(TenantId::get))
        .with("event_id = ?", filter.event_id.as_ref())
        .with(&is("consumer"), filter.consumer.as_ref())
        .with("status = ?", filter.status.map(ConsumeStatus::as_str))
        .with("consume_time >= ?", filter.from)
        .with("consume_time < ?", filter.to);
    let is_open = filter.status.is_some_and(|status| status != ConsumeStatus::Success);
    let is_open = is_open && filter.event_id.is_none();
    if is_open { page.and(OPEN, []) } else { page }.limit(most)
}

fn type_values(types: &[&str]) -> Vec<Value> {
    padded(types).into_iter().map(Value::from).collect()
}

#[async_trait]
impl ConsumeQueries for Session {
    async fn consumption(
        &mut self,
        consumer: &str,
        event: &EventId,
    ) -> Result<Option<ConsumeRecord>, StoreError> {
        let sql = format!("SELECT {RECORD} FROM event_consume_log WHERE consumer = ? AND event_id = ?");
        let row = self.fetch_one(&sql, values![consumer, event]).await?;
        row.as_ref().map(ConsumeLogTable::fields).map(record).transpose()
    }

    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let types = type_values(types);
        let gate = Gate { dialect: self.dialect, consumer, types: &types, after_id };
        let mut ids: BTreeMap<(i64, &str), Vec<i64>> = BTreeMap::new();
        for aggregate in aggregates {
            ids.entry((aggregate.tenant.get(), aggregate.kind.as_str()))
                .or_default()
                .push(aggregate.id.number());
        }
        let mut found = Vec::new();
        for ((tenant, kind), mut ids) in ids {
            ids.sort_unstable();
            ids.dedup();
            for ids in ids.chunks(MAX_ROWS) {
                let (sql, values) = gate.unapplied_of((tenant, kind, ids));
                let rows = self.fetch(&sql, values).await?;
                found.extend(self.readable(&rows, unapplied));
            }
        }
        // The number of an id may also be the hash of another aggregate's text key.
        let wanted: BTreeSet<&AggregateRef> = aggregates.iter().collect();
        found.retain(|one| wanted.contains(&one.event.aggregate));
        found.sort_by(in_order);
        Ok(found)
    }

    async fn unapplied_from(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[(AggregateRef, i64)],
        limit: u32,
    ) -> Result<Vec<Unapplied>, StoreError> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let types = type_values(types);
        let gate = Gate { dialect: self.dialect, consumer, types: &types, after_id };
        let mut found = Vec::new();
        for aggregates in gate.chunks(aggregates) {
            let mut limit_read = limit;
            let mut read = loop {
                let (sql, values) = gate.unapplied_from(&aggregates, limit_read);
                let rows = self.fetch(&sql, values).await?;
                let read = self.readable(&rows, unapplied);
                // A caller takes a short result for the end, so unreadable rows do not count for the limit.
                let unreadable = u32::try_from(rows.len() - read.len()).unwrap_or(u32::MAX);
                let enough = limit.saturating_add(unreadable);
                if enough <= limit_read {
                    break read;
                }
                limit_read = enough;
            };
            if limit_read > limit {
                read.sort_by(in_order);
                let mut place = (None, 0);
                read.retain(|one| {
                    let is_same = place.0.as_ref() == Some(&one.event.aggregate);
                    place = (Some(one.event.aggregate.clone()), if is_same { place.1 + 1 } else { 1 });
                    place.1 <= limit
                });
            }
            found.extend(read);
        }
        found.sort_by(in_order);
        Ok(found)
    }

    async fn stale_consumptions(
        &mut self,
        consumer: &str,
        except: &[&str],
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        most: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        let except = type_values(except);
        let other_type = match except.len() {
            0 => String::new(),
            types => format!("AND event_type NOT IN ({})", placeholders(types)),
        };
        let sql = format!(
            "SELECT id, event_id FROM event_consume_log {index} WHERE consumer = ? {other_type} \
             AND status IN ('PROCESSING', 'WAITING', 'FAILED') \
             AND ((status <> 'PROCESSING' AND consume_time <= ? \
                   AND (next_retry_time IS NULL OR next_retry_time <= ?)) \
                  OR (status = 'PROCESSING' AND (lease_until IS NULL OR lease_until < ?)) \
                  OR consume_time > ?) \
             ORDER BY consume_time, id LIMIT ?",
            index = self.dialect.index("idx_consume_unsettled"),
        );
        let mut values = values![consumer];
        values.extend(except);
        values.extend(values![idle_since, now, now, now, most]);
        let rows = self.fetch(&sql, values).await?;
        rows.iter().map(|row| row.of("event_consume_log", "id").named("event_id")).collect()
    }

    async fn unconsumed_events(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        most: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let types = type_values(types);
        let sql = format!(
            "SELECT {columns} FROM outbox_events o {index} {record} WHERE o.sent_time > ? AND o.sent_time <= ? \
             AND {id} > ? AND {of_type} AND l.id IS NULL AND {concerned} ORDER BY o.sent_time, o.id LIMIT ?",
            columns = OutboxTable::COLUMNS,
            index = self.dialect.index("idx_outbox_sent"),
            record = join_record(self.dialect),
            id = self.dialect.unindexed("o.id"),
            of_type = of_type(self.dialect, types.len()),
            concerned = concerned(self.dialect),
        );
        let mut limit = most;
        loop {
            let mut values = values![consumer, after, until, after_id];
            values.extend(types.iter().cloned());
            values.extend(values![consumer, quoted(consumer), limit]);
            let rows = self.fetch(&sql, values).await?;
            let mut found = self.readable(&rows, OutboxTable::read);
            // A caller takes a short result for the end, so unreadable rows do not count for the limit.
            if found.len() >= most as usize || rows.len() < limit as usize {
                found.truncate(most as usize);
                return Ok(found);
            }
            limit = limit.saturating_add(u32::try_from(rows.len() - found.len()).unwrap_or(u32::MAX));
        }
    }

    async fn consumed_page(
        &mut self,
        filter: &ConsumedFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError> {
        let (sql, values) = page(self.dialect, filter, before, most);
        self.fetch(&sql, values).await?.iter().map(ConsumeLogTable::numbered).collect()
    }

    async fn consumed_of(&mut self, events: &[EventId]) -> Result<Vec<Consumed>, StoreError> {
        let mut found = Vec::new();
        for events in events.chunks(MAX_ROWS) {
            let (sql, values) = of_events(events);
            for row in &self.fetch(&sql, values).await? {
                found.push(ConsumeLogTable::numbered(row)?);
            }
        }
        // Removes duplicates: an event id that occurs in two chunks is read twice.
        found.sort_by_key(|row| row.id);
        found.dedup_by_key(|row| row.id);
        Ok(found.into_iter().map(|row| row.effect).collect())
    }

    async fn consumed_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<Consumed>, StoreError> {
        let mut found = Vec::new();
        for of in aggregates {
            let (condition, values) = is_aggregate("", of);
            for row in &self.fetch(&format!("{} WHERE {condition}", select()), values).await? {
                found.push(ConsumeLogTable::read(row)?);
            }
        }
        Ok(found)
    }

    async fn consume_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<ConsumeCounts, StoreError> {
        let newest = self.newest_ids("event_consume_log", max_ids).await?;
        let (sql, values) = counts(self.dialect, tenant, &newest);
        let rows = self.fetch(&sql, values).await?;
        let count = |row: &Row| {
            let row = row.of("event_consume_log", "consumer");
            let consumer = row.string("consumer")?;
            let status = row.named("status")?;
            Ok(ConsumeCount { consumer, status, events: row.id("events")? })
        };
        let mut counts = rows.iter().map(count).collect::<Result<Vec<_>, StoreError>>()?;
        // The counts are sorted here, because the collations of the engines differ.
        counts.sort_by(|a, b| (&a.consumer, a.status.as_str()).cmp(&(&b.consumer, b.status.as_str())));
        Ok(ConsumeCounts { counts, more_success: newest.has_older })
    }

    async fn consumer_subscription(
        &mut self,
        consumer: &str,
    ) -> Result<Option<ConsumerSubscription>, StoreError> {
        let row = self.fetch_one(&subscription(), values![consumer]).await?;
        row.as_ref().map(SubscriptionTable::read).transpose()
    }

    async fn registered_types(&mut self) -> Result<Vec<RegisteredType>, StoreError> {
        let sql = format!("SELECT {} FROM outbox_consumer_types", RegisteredTypeTable::COLUMNS);
        let rows = self.fetch(&sql, Vec::new()).await?;
        let mut types = rows.iter().map(RegisteredTypeTable::read).collect::<Result<Vec<_>, _>>()?;
        // The rows are sorted here, because the collations of the engines differ.
        types.sort_by(|a, b| (&a.consumer, &a.event_type).cmp(&(&b.consumer, &b.event_type)));
        Ok(types)
    }
}
