//! Queries of the consume log.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, EventId, TenantId};
use handover_outbox::ports::{
    ConsumeCount, ConsumeCounts, ConsumeQueries, ConsumeRecord, Consumed, ConsumedFilter,
    ConsumerSubscription, Consumption, Numbered, OutboxRow, RegisteredType, StoreError, Unapplied,
};

use super::outbox_index::{of_aggregate, sent_between};
use super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::rows::{ConsumptionRow, SubscriptionRow};
use super::statement::Tables;
use super::tables::{Row, limited};
use super::unit::MemoryUnit;

#[derive(Default)]
pub(super) struct ConsumptionIndex {
    /// The unsettled rows of each consumer: `consume_time`, row id and event id.
    open: BTreeMap<String, BTreeSet<(DateTime<Utc>, i64, EventId)>>,
    by_id: BTreeMap<i64, (String, EventId)>,
    by_event: BTreeMap<EventId, BTreeSet<i64>>,
}

impl ConsumptionRow {
    fn entry(&self) -> (DateTime<Utc>, i64, EventId) {
        (self.is.consume_time, self.id, self.is.event_id.clone())
    }
}

impl Row<OutboxTables> for ConsumptionRow {
    type Key = (String, EventId);
    type Index = ConsumptionIndex;

    fn key(&self) -> (String, EventId) {
        (self.is.consumer.clone(), self.is.event_id.clone())
    }

    fn enter(&self, index: &mut ConsumptionIndex) {
        index.by_id.insert(self.id, self.key());
        index.by_event.entry(self.is.event_id.clone()).or_default().insert(self.id);
        if self.is.status.is_settled() {
            return;
        }
        match index.open.get_mut(&self.is.consumer) {
            Some(open) => {
                open.insert(self.entry());
            }
            None => {
                index.open.insert(self.is.consumer.clone(), BTreeSet::from([self.entry()]));
            }
        }
    }

    fn leave(&self, index: &mut ConsumptionIndex) {
        index.by_id.remove(&self.id);
        if let Some(ids) = index.by_event.get_mut(&self.is.event_id) {
            ids.remove(&self.id);
            if ids.is_empty() {
                index.by_event.remove(&self.is.event_id);
            }
        }
        if let Some(open) = index.open.get_mut(&self.is.consumer) {
            open.remove(&self.entry());
        }
    }
}

impl Row<OutboxTables> for SubscriptionRow {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.consumer.clone()
    }
}

impl Row<OutboxTables> for RegisteredType {
    type Key = (String, String);
    type Index = ();

    fn key(&self) -> (String, String) {
        (self.consumer.clone(), self.event_type.clone())
    }
}

fn record_of(row: &ConsumptionRow) -> ConsumeRecord {
    ConsumeRecord {
        status: row.is.status,
        attempts: row.is.attempts,
        next_retry_time: row.is.next_retry_time,
        lease_until: row.is.lease_until,
        error_message: row.is.error_message.clone(),
        consume_time: row.is.consume_time,
    }
}

pub(super) fn consumed(row: &ConsumptionRow) -> Consumed {
    Consumed {
        consumer: row.is.consumer.clone(),
        event_id: row.is.event_id.clone(),
        event_type: row.is.event_type.clone(),
        aggregate: row.is.aggregate.clone(),
        aggregate_seq: row.is.aggregate_seq,
        record: record_of(row),
        idempotency_key: row.is.idempotency_key.clone(),
        consume_result: row.is.consume_result.clone(),
        payload_hash: row.is.payload_hash.clone(),
        trace_id: row.is.trace_id.clone(),
        cost_ms: row.is.cost_ms,
    }
}

fn passes(filter: &ConsumedFilter, row: &Consumption) -> bool {
    filter.tenant.is_none_or(|tenant| row.aggregate.tenant == tenant)
        && filter.event_id.as_ref().is_none_or(|event| row.event_id == *event)
        && filter.consumer.as_ref().is_none_or(|consumer| row.consumer == *consumer)
        && filter.status.is_none_or(|status| row.status == status)
        && filter.from.is_none_or(|from| row.consume_time >= from)
        && filter.to.is_none_or(|to| row.consume_time < to)
}

pub(super) fn find<'s>(
    statement: &'s Statement<'_>,
    consumer: &str,
    event: &EventId,
) -> Option<&'s ConsumptionRow> {
    statement.consumptions().get(&(consumer.to_owned(), event.clone()))
}

/// Whether the consumer, with a handler of these types, has to settle the event: it applies it, or leaves it to a process
/// that has registered its type.
fn has_to_settle(statement: &Statement<'_>, consumer: &str, types: &[&str], row: &OutboxRow) -> bool {
    let key = || (consumer.to_owned(), row.event_type.clone());
    let is_registered = || !types.is_empty() && statement.registered_types().get(&key()).is_some();
    types.contains(&row.event_type.as_str()) || is_registered()
}

/// Whether only the sweep can process the row, because it has neither a running attempt nor a pending redelivery.
fn is_leftover(row: &Consumption, idle_since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    if row.consume_time > now {
        return !row.status.is_settled();
    }
    match row.status {
        ConsumeStatus::Processing => row.lease_until.is_none_or(|until| until < now),
        ConsumeStatus::Waiting | ConsumeStatus::Failed => {
            row.consume_time <= idle_since && row.next_retry_time.is_none_or(|due| due <= now)
        }
        ConsumeStatus::Success | ConsumeStatus::Dead => false,
    }
}

/// The unapplied events of an aggregate, in order.
fn unapplied_of(
    statement: &Statement<'_>,
    (consumer, types, after_id): (&str, &[&str], i64),
    aggregate: &AggregateRef,
) -> Vec<Unapplied> {
    let mut unapplied = Vec::new();
    let events = of_aggregate(statement, aggregate);
    for event in events.filter(|event| has_to_settle(statement, consumer, types, event)) {
        let row = find(statement, consumer, &event.event_id);
        let is_new = event.id > after_id && !event.idle_consumers.contains(consumer);
        if row.map_or(is_new, |row| !row.is.status.is_settled()) {
            unapplied.push(Unapplied { event: event.clone(), record: row.map(record_of) });
        }
    }
    unapplied
}

#[async_trait]
impl<X: Tables> ConsumeQueries for MemoryUnit<X> {
    async fn consumption(
        &mut self,
        consumer: &str,
        event: &EventId,
    ) -> Result<Option<ConsumeRecord>, StoreError> {
        self.read_outbox(|statement| find(statement, consumer, event).map(record_of)).await
    }

    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        self.read_outbox(|statement| {
            let in_order: BTreeSet<&AggregateRef> = aggregates.iter().collect();
            let of = |aggregate| unapplied_of(statement, (consumer, types, after_id), aggregate);
            in_order.into_iter().flat_map(of).collect()
        })
        .await
    }

    async fn unapplied_from(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[(AggregateRef, i64)],
        limit: u32,
    ) -> Result<Vec<Unapplied>, StoreError> {
        self.read_outbox(|statement| {
            let in_order: BTreeMap<&AggregateRef, i64> =
                aggregates.iter().map(|(aggregate, from)| (aggregate, *from)).collect();
            let first = |(aggregate, from)| {
                let mut unapplied = unapplied_of(statement, (consumer, types, after_id), aggregate);
                unapplied.retain(|one| one.event.aggregate_seq >= from);
                unapplied.truncate(limited(limit));
                unapplied
            };
            in_order.into_iter().flat_map(first).collect()
        })
        .await
    }

    async fn stale_consumptions(
        &mut self,
        consumer: &str,
        except: &[&str],
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        self.read_outbox(|statement| {
            let consumptions = statement.consumptions();
            let oldest_first = consumptions.select(|table| {
                let open = table.index.open.get(consumer).into_iter().flatten();
                open.filter_map(|entry| Some((entry, table.get(&(consumer.to_owned(), entry.2.clone()))?)))
            });
            oldest_first
                .filter(|row| !except.contains(&row.is.event_type.as_str()))
                .filter(|row| is_leftover(&row.is, idle_since, now))
                .take(limited(limit))
                .map(|row| row.is.event_id.clone())
                .collect()
        })
        .await
    }

    async fn unconsumed_events(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.read_outbox(|statement| {
            sent_between(statement, after, until)
                .filter(|event| event.id > after_id && has_to_settle(statement, consumer, types, event))
                .filter(|event| !event.idle_consumers.contains(consumer))
                .filter(|event| find(statement, consumer, &event.event_id).is_none())
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }

    async fn consumed_page(
        &mut self,
        filter: &ConsumedFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError> {
        self.read_outbox(|statement| {
            let rows = statement.consumptions();
            let newest_first = rows.select(|table| {
                let ids = table.index.by_id.range(..before.unwrap_or(i64::MAX)).rev();
                ids.filter_map(|(id, key)| Some((Reverse(*id), table.get(key)?)))
            });
            newest_first
                .filter(|row| filter.above_id.is_none_or(|id| row.id > id) && passes(filter, &row.is))
                .take(limited(limit))
                .map(|row| Numbered { id: row.id, effect: consumed(row) })
                .collect()
        })
        .await
    }

    async fn consumed_of(&mut self, events: &[EventId]) -> Result<Vec<Consumed>, StoreError> {
        self.read_outbox(|statement| {
            let rows = statement.consumptions();
            let in_order = rows.select(|table| {
                let of = |event: &EventId| table.index.by_event.get(event).into_iter().flatten().copied();
                let ids: BTreeSet<i64> = events.iter().flat_map(of).collect();
                ids.into_iter().filter_map(|id| Some((id, table.get(table.index.by_id.get(&id)?)?)))
            });
            in_order.map(consumed).collect()
        })
        .await
    }

    async fn consumed_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<Consumed>, StoreError> {
        self.read_outbox(|statement| {
            let rows = statement.consumptions();
            rows.all().filter(|row| aggregates.contains(&row.is.aggregate)).map(consumed).collect()
        })
        .await
    }

    async fn consume_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<ConsumeCounts, StoreError> {
        self.read_outbox(|statement| {
            let rows = statement.consumptions();
            let newest = rows.all().map(|row| row.id).max().unwrap_or_default();
            let is_newest = |id: i64| id > newest.saturating_sub(max_ids);
            let counted = rows
                .all()
                .filter(|row| tenant.is_none_or(|tenant| row.is.aggregate.tenant == tenant))
                .filter(|row| row.is.status != ConsumeStatus::Success || is_newest(row.id));
            let mut counts: BTreeMap<(&str, &str), ConsumeCount> = BTreeMap::new();
            for row in counted {
                let (consumer, status) = (row.is.consumer.as_str(), row.is.status);
                let count = counts.entry((consumer, status.as_str())).or_insert_with(|| ConsumeCount {
                    consumer: consumer.to_owned(),
                    status,
                    events: 0,
                });
                count.events += 1;
            }
            ConsumeCounts {
                counts: counts.into_values().collect(),
                more_success: rows.all().any(|row| !is_newest(row.id)),
            }
        })
        .await
    }

    async fn consumer_subscription(
        &mut self,
        consumer: &str,
    ) -> Result<Option<ConsumerSubscription>, StoreError> {
        self.read_outbox(|statement| statement.subscriptions().get(&consumer.to_owned()).map(|row| row.is))
            .await
    }

    async fn registered_types(&mut self) -> Result<Vec<RegisteredType>, StoreError> {
        self.read_outbox(|statement| statement.registered_types().all().cloned().collect()).await
    }
}
