//! Writes to the consume log.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    ConsumeLog, ConsumerSubscription, Consumption, Expected, RegisteredType, StoreError,
};

use super::consume::find;
use super::errors::conflict;
use super::leases::in_ms;
use super::locks::Lock;
use super::outbox_tables::OutboxRows as _;
use super::rows::{ConsumptionRow, SubscriptionRow};
use super::statement::{Tables, next};
use super::tables::Row as _;
use super::unit::MemoryUnit;

#[async_trait]
impl<X: Tables> ConsumeLog for MemoryUnit<X> {
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        let locks = consumptions
            .iter()
            .map(|consumption| Lock::Consumption(consumption.consumer.clone(), consumption.event_id.clone()))
            .collect();
        self.write_outbox(locks, |statement| {
            for consumption in consumptions {
                let row = find(statement, &consumption.consumer, &consumption.event_id);
                let existing_id = row.map(|row| row.id);
                let matches_expectation = match consumption.expected {
                    Expected::Absent => row.is_none(),
                    Expected::At(status, attempts) => {
                        row.is_some_and(|row| row.is.status == status && row.is.attempts == attempts)
                    }
                };
                if !matches_expectation {
                    let what =
                        format!("consume_log of {} for {}", consumption.event_id, consumption.consumer);
                    return Err(conflict(what));
                }
                let id = existing_id.unwrap_or_else(|| next(&mut statement.sequences.consumptions));
                statement.own.consumptions.put(ConsumptionRow { id, is: consumption.clone() });
            }
            Ok(())
        })
        .await
    }

    async fn subscribe_consumer(
        &mut self,
        consumer: &str,
        now: DateTime<Utc>,
    ) -> Result<ConsumerSubscription, StoreError> {
        self.write_outbox(vec![Lock::Subscription(consumer.to_owned())], |statement| {
            if let Some(row) = statement.subscriptions().get(&consumer.to_owned()) {
                return Ok(row.is);
            }
            let archived = statement.archived().all().map(|row| row.is.id);
            let after_id = statement.outbox().all().map(|row| row.id).chain(archived).max().unwrap_or(0);
            let is = ConsumerSubscription { after_id, checked_until: now };
            statement.own.subscriptions.put(SubscriptionRow { consumer: consumer.to_owned(), is });
            Ok(is)
        })
        .await
    }

    async fn set_checked_until(&mut self, consumer: &str, until: DateTime<Utc>) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Subscription(consumer.to_owned())], |statement| {
            let Some(mut row) = statement.subscriptions().get(&consumer.to_owned()).cloned() else {
                return Ok(());
            };
            row.is.checked_until = until;
            statement.own.subscriptions.put(row);
            Ok(())
        })
        .await
    }

    async fn register_types(
        &mut self,
        consumer: &str,
        types: &[&str],
        for_ms: u32,
    ) -> Result<(), StoreError> {
        let lock = |event_type: &&str| Lock::RegisteredType(consumer.to_owned(), (*event_type).to_owned());
        self.write_outbox(types.iter().map(lock).collect(), |statement| {
            let alive_until = in_ms(statement, for_ms);
            for event_type in types {
                statement.own.registered_types.put(RegisteredType {
                    consumer: consumer.to_owned(),
                    event_type: (*event_type).to_owned(),
                    alive_until,
                });
            }
            Ok(())
        })
        .await
    }

    async fn unregister_types(&mut self, ended: &[RegisteredType]) -> Result<(), StoreError> {
        let lock = |it: &RegisteredType| Lock::RegisteredType(it.consumer.clone(), it.event_type.clone());
        self.write_outbox(ended.iter().map(lock).collect(), |statement| {
            for registered in ended {
                let key = registered.key();
                if statement.registered_types().get(&key) == Some(registered) {
                    statement.own.registered_types.remove(&key);
                }
            }
            Ok(())
        })
        .await
    }
}
