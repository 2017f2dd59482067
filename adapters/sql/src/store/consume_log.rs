//! The consume log as it is written.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::{ConsumeLog, ConsumerSubscription, Consumption, Expected, StoreError};

use super::consume::subscription;
use crate::dialect::{MAX_ROWS, padded};
use crate::session::Session;
use crate::value::{aggregate, values};

const INSERT: &str = "INSERT INTO event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, \
    cost_ms, error_message, idempotency_key, consume_result, payload_hash, trace_id, lease_until, next_retry_time, \
    aggregate_seq, tenant_id, aggregate_type, aggregate_id)";
const INSERTED: usize = 18;

impl Session {
    /// Writes rows of distinct events: those that replace one take it away first, each only as it was expected.
    async fn record_distinct(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        let replacing: Vec<_> = consumptions
            .iter()
            .filter_map(|one| match one.expected {
                Expected::Absent => None,
                Expected::At(status, attempts) => Some((one, status, attempts)),
            })
            .collect();
        for replacing in replacing.chunks(MAX_ROWS) {
            let padded = padded(replacing);
            let sql = format!(
                "DELETE FROM event_consume_log WHERE (consumer, event_id, status, attempts) IN {}",
                self.dialect.row_list(padded.len(), 4)
            );
            let values = padded
                .iter()
                .flat_map(|(one, status, attempts)| {
                    values![&one.consumer, &one.event_id, status.as_str(), *attempts]
                })
                .collect();
            let taken = self.execute(&sql, values).await?;
            if taken != replacing.len() as u64 {
                return Err(self.conflict("event_consume_log.status"));
            }
        }
        let mut rows = Vec::with_capacity(consumptions.len() * INSERTED);
        for one in consumptions {
            rows.extend(values![
                &one.event_id,
                &one.event_type,
                &one.consumer,
                one.consume_time,
                one.status.as_str(),
                one.attempts,
                one.cost_ms,
                &one.error_message,
                &one.idempotency_key,
                &one.consume_result,
                &one.payload_hash,
                &one.trace_id,
                one.lease_until,
                one.next_retry_time,
                one.aggregate_seq,
            ]);
            rows.extend(aggregate(&one.aggregate));
        }
        self.insert(INSERT, INSERTED, rows, "").await?;
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
        let sql = format!(
            "SELECT consumer, since, checked_until FROM consumer_subscriptions WHERE consumer = ? {}",
            self.dialect.for_update()
        );
        if let Some(row) = self.fetch_one(&sql, values![consumer]).await? {
            return subscription(&row);
        }
        let insert = "INSERT INTO consumer_subscriptions (consumer, since, checked_until)";
        self.insert(insert, 3, values![consumer, now, now], "").await?;
        Ok(ConsumerSubscription { since: now, checked_until: now })
    }

    async fn set_checked_until(&mut self, consumer: &str, until: DateTime<Utc>) -> Result<(), StoreError> {
        let sql =
            "UPDATE consumer_subscriptions SET checked_until = ? WHERE consumer = ? AND checked_until < ?";
        self.execute(sql, values![until, consumer, until]).await?;
        Ok(())
    }
}
