//! Writes to the consume log.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    ConsumeLog, ConsumerSubscription, Consumption, Expected, RegisteredType, StoreError,
};

use handover_events::{ConsumeStatus, EventId, MAX_ID};

use super::consume::{ConsumeLogTable, RegisteredTypeTable, SubscriptionTable, subscription};
use crate::dialect::{LookUp, MAX_ROWS, padded};
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

impl Session {
    /// Writes records that are distinct by consumer and event. Fails if a stored record differs from what the caller
    /// expects: no record, or a record with a given status and number of attempts.
    async fn record_distinct(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        let mut new = Vec::new();
        let mut existing = Vec::new();
        let mut expected: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for one in consumptions {
            match one.expected {
                Expected::Absent => new.push(one),
                Expected::At(status, attempts) => {
                    existing.push(one);
                    expected.entry(&one.consumer).or_default().push((&one.event_id, status, attempts));
                }
            }
        }
        for (consumer, expected) in &expected {
            for expected in expected.chunks(MAX_ROWS) {
                self.lock_expected(consumer, expected).await?;
            }
        }
        self.insert_or_update::<ConsumeLogTable>(ConsumeLogTable::rows(existing)).await?;
        // If a record that should be new exists already, the unique key makes the insert fail.
        self.insert_into::<ConsumeLogTable>(ConsumeLogTable::rows(new), "").await
    }

    /// Locks records of one consumer and checks that they have the expected status and attempts.
    async fn lock_expected(
        &mut self,
        consumer: &str,
        expected: &[(&EventId, ConsumeStatus, u32)],
    ) -> Result<(), StoreError> {
        let events = padded(&expected.iter().map(|(event, ..)| *event).collect::<Vec<_>>());
        let (sql, values) = self.dialect.look_up(LookUp {
            columns: "event_id, status, attempts",
            from: format!("event_consume_log {}", self.dialect.lock_index("uk_consumer_event")),
            column: "event_id",
            keys: events.into_iter().map(Value::from).collect(),
            conditions: "consumer = ?".to_owned(),
            values: values![consumer],
            lock: self.dialect.for_update(),
            ..LookUp::default()
        });
        let mut found: BTreeMap<EventId, (ConsumeStatus, u32)> = BTreeMap::new();
        for row in self.fetch(&sql, values).await? {
            let row = ConsumeLogTable::fields(&row);
            found.insert(row.named("event_id")?, (row.named("status")?, row.count("attempts")?));
        }
        if expected.iter().any(|(event, status, attempts)| found.get(*event) != Some(&(*status, *attempts))) {
            return Err(self.conflict("event_consume_log.status"));
        }
        Ok(())
    }
}

#[async_trait]
impl ConsumeLog for Session {
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        let events: BTreeSet<_> = consumptions.iter().map(|one| (&one.consumer, &one.event_id)).collect();
        if events.len() == consumptions.len() {
            return self.record_distinct(consumptions).await;
        }
        for one in consumptions {
            self.record_distinct(std::slice::from_ref(one)).await?;
        }
        Ok(())
    }

    async fn subscribe_consumer(
        &mut self,
        consumer: &str,
        now: DateTime<Utc>,
    ) -> Result<ConsumerSubscription, StoreError> {
        let sql = format!("{} {}", subscription(), self.dialect.for_update());
        if let Some(row) = self.fetch_one(&sql, values![consumer]).await? {
            return SubscriptionTable::read(&row);
        }
        // A row with a larger id was imported. On PostgreSQL later events have smaller ids than it.
        let last_id = "SELECT MAX(id) AS id FROM (SELECT MAX(id) AS id FROM outbox_events WHERE id <= ? UNION ALL \
                       SELECT MAX(id) FROM outbox_archived_events WHERE id <= ?) newest";
        let row = self.fetch_one(last_id, values![MAX_ID, MAX_ID]).await?;
        let after_id = row.map(|row| row.of("outbox_events", "id").opt_int("id")).transpose()?.flatten();
        let new = ConsumerSubscription { after_id: after_id.unwrap_or(0), checked_until: now };
        self.insert_into::<SubscriptionTable>(SubscriptionTable::values((consumer, &new)), "").await?;
        Ok(new)
    }

    async fn set_checked_until(&mut self, consumer: &str, until: DateTime<Utc>) -> Result<(), StoreError> {
        let sql = "UPDATE outbox_consumer_subscriptions SET checked_until = ? WHERE consumer = ?";
        self.execute(sql, values![until, consumer]).await?;
        Ok(())
    }

    async fn register_types(
        &mut self,
        consumer: &str,
        types: &[&str],
        for_ms: u32,
    ) -> Result<(), StoreError> {
        let (_, alive_until) = self.now_and(for_ms).await?;
        // Processes renew the same rows: the common sequence of types prevents deadlocks, and one statement cannot write
        // a row twice.
        let types: BTreeSet<&str> = types.iter().copied().collect();
        let registered = |event_type: &str| RegisteredType {
            consumer: consumer.to_owned(),
            event_type: event_type.to_owned(),
            alive_until,
        };
        let rows: Vec<RegisteredType> = types.into_iter().map(registered).collect();
        self.insert_or_update::<RegisteredTypeTable>(RegisteredTypeTable::rows(&rows)).await
    }

    async fn unregister_types(&mut self, ended: &[RegisteredType]) -> Result<(), StoreError> {
        for RegisteredType { consumer, event_type, alive_until } in ended {
            let sql = "DELETE FROM outbox_consumer_types \
                       WHERE consumer = ? AND event_type = ? AND alive_until = ?";
            self.execute(sql, values![consumer, event_type, *alive_until]).await?;
        }
        Ok(())
    }
}
