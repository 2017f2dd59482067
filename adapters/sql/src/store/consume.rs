//! The consume log as it is read.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::{
    ConsumeQueries, ConsumeRecord, ConsumerSubscription, OutboxRow, StoreError, Unapplied,
};
use handover_domain::{AggregateRef, EventId, EventType};

use super::limit;
use super::outbox::{COLUMNS, outbox_row};
use crate::dialect::{MAX_ROWS, marks, padded};
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

const RECORD: &str = "event_id, status, attempts, next_retry_time, lease_until, error_message, consume_time";

fn record(row: &Row) -> Result<ConsumeRecord, StoreError> {
    let row = row.of("event_consume_log", "event_id");
    Ok(ConsumeRecord {
        status: row.named("status")?,
        attempts: row.count("attempts")?,
        next_retry_time: row.opt_time("next_retry_time")?,
        lease_until: row.opt_time("lease_until")?,
        error_message: row.opt_string("error_message")?,
        consume_time: row.time("consume_time")?,
    })
}

fn unapplied(row: &Row) -> Result<Unapplied, StoreError> {
    let log = row.of("event_consume_log", "event_id");
    let record = match log.opt_text("log_status")? {
        None => None,
        Some(_) => Some(ConsumeRecord {
            status: log.named("log_status")?,
            attempts: log.count("attempts")?,
            next_retry_time: log.opt_time("log_next_retry_time")?,
            lease_until: log.opt_time("lease_until")?,
            error_message: log.opt_string("error_message")?,
            consume_time: log.time("consume_time")?,
        }),
    };
    Ok(Unapplied { event: outbox_row(row)?, record })
}

fn type_values(types: &[EventType]) -> Vec<Value> {
    padded(types).into_iter().map(|kind| Value::from(kind.as_str())).collect()
}

pub(super) fn subscription(row: &Row) -> Result<ConsumerSubscription, StoreError> {
    let row = row.of("consumer_subscriptions", "consumer");
    Ok(ConsumerSubscription { since: row.time("since")?, checked_until: row.time("checked_until")? })
}

#[async_trait]
impl ConsumeQueries for Session {
    async fn consumption(
        &mut self,
        consumer: &str,
        event: &EventId,
    ) -> Result<Option<ConsumeRecord>, StoreError> {
        let sql = format!("SELECT {RECORD} FROM event_consume_log WHERE consumer = ? AND event_id = ?");
        self.fetch_one(&sql, values![consumer, event]).await?.as_ref().map(record).transpose()
    }

    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[EventType],
        since: DateTime<Utc>,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let types = type_values(types);
        let mut ids: BTreeMap<(i64, &str), Vec<i64>> = BTreeMap::new();
        for aggregate in aggregates {
            ids.entry((aggregate.tenant.get(), aggregate.kind.as_str())).or_default().push(aggregate.id);
        }
        let mut found = Vec::new();
        for ((tenant, kind), mut ids) in ids {
            ids.sort_unstable();
            ids.dedup();
            for ids in ids.chunks(MAX_ROWS) {
                let ids = padded(ids);
                let sql = format!(
                    "SELECT {COLUMNS}, l.status AS log_status, l.attempts, l.next_retry_time AS log_next_retry_time, \
                     l.lease_until, l.error_message, l.consume_time FROM outbox_events o {index} \
                     LEFT JOIN event_consume_log l ON l.consumer = ? AND l.event_id = o.event_id \
                     WHERE o.aggregate_type = ? AND o.aggregate_id IN ({ids}) AND o.tenant_id = ? \
                     AND o.event_type IN ({types}) AND o.create_time >= ? \
                     AND (l.status IS NULL OR l.status NOT IN ('SUCCESS', 'DEAD'))",
                    index = self.dialect.index("idx_aggregate"),
                    ids = marks(ids.len()),
                    types = marks(types.len()),
                );
                let mut values = values![consumer, kind];
                values.extend(ids.into_iter().map(Value::from));
                values.push(tenant.into());
                values.extend(types.iter().cloned());
                values.push(since.into());
                for row in &self.fetch(&sql, values).await? {
                    found.push(unapplied(row)?);
                }
            }
        }
        found.sort_by(|a, b| {
            let key = |one: &Unapplied| (one.event.aggregate_seq, one.event.id);
            a.event.aggregate.cmp(&b.event.aggregate).then_with(|| key(a).cmp(&key(b)))
        });
        Ok(found)
    }

    async fn leftovers(
        &mut self,
        consumer: &str,
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        most: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        let sql = "SELECT id, event_id FROM event_consume_log WHERE consumer = ? \
                   AND status IN ('PROCESSING', 'WAITING', 'FAILED') \
                   AND ((status <> 'PROCESSING' AND consume_time <= ? \
                         AND (next_retry_time IS NULL OR next_retry_time <= ?)) \
                        OR (status = 'PROCESSING' AND (lease_until IS NULL OR lease_until < ?))) \
                   ORDER BY consume_time, id LIMIT ?";
        let values = values![consumer, idle_since, idle_since, now, limit(most)];
        let rows = self.fetch(sql, values).await?;
        rows.iter().map(|row| row.of("event_consume_log", "id").named("event_id")).collect()
    }

    async fn unseen(
        &mut self,
        consumer: &str,
        types: &[EventType],
        since: DateTime<Utc>,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        most: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let types = type_values(types);
        let sql = format!(
            "SELECT {COLUMNS} FROM outbox_events o {index} WHERE o.sent_time > ? AND o.sent_time <= ? \
             AND o.create_time >= ? AND o.event_type IN ({types}) AND NOT EXISTS (SELECT 1 FROM event_consume_log l \
             WHERE l.consumer = ? AND l.event_id = o.event_id) ORDER BY o.sent_time, o.id LIMIT ?",
            index = self.dialect.index("idx_outbox_sent"),
            types = marks(types.len()),
        );
        let mut values = values![after, until, since];
        values.extend(types);
        values.extend(values![consumer, limit(most)]);
        self.fetch(&sql, values).await?.iter().map(outbox_row).collect()
    }

    async fn consumer_subscription(
        &mut self,
        consumer: &str,
    ) -> Result<Option<ConsumerSubscription>, StoreError> {
        let sql = "SELECT consumer, since, checked_until FROM consumer_subscriptions WHERE consumer = ?";
        self.fetch_one(sql, values![consumer]).await?.as_ref().map(subscription).transpose()
    }
}
