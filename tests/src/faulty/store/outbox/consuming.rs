//! Faults of the consume log.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> ConsumeQueriesWrapper for Faulty<U> {
    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        let forgets = self.has(Fault::UnappliedExcludesFailed);
        let mut found = self.inner().outbox_view().unapplied(consumer, types, after_id, aggregates).await?;
        found.retain(|unapplied| {
            let failed = handover_events::ConsumeStatus::Failed;
            !forgets || unapplied.record.as_ref().is_none_or(|record| record.status != failed)
        });
        if self.has(Fault::UnappliedExcludesRegisteredTypes) {
            found.retain(|unapplied| types.contains(&unapplied.event.event_type.as_str()));
        }
        if self.has(Fault::UnappliedExcludesOlderEvents) {
            found.retain(|unapplied| unapplied.event.id > after_id);
        }
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
        let limit = if self.has(Fault::UnappliedIgnoresLimit) { u32::MAX } else { limit };
        let later = i64::from(self.has(Fault::UnappliedBeginsAfterPosition));
        let aggregates: Vec<_> = aggregates
            .iter()
            .map(|(aggregate, from)| (aggregate.clone(), from.saturating_add(later)))
            .collect();
        let of_all = if self.has(Fault::UnappliedLimitsAllAggregates) { limit } else { u32::MAX };
        let view = self.inner().outbox_view();
        let mut found = view.unapplied_from(consumer, types, after_id, &aggregates, limit).await?;
        found.truncate(of_all as usize);
        Ok(found)
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
        let view = self.inner().outbox_view();
        let mut rows = view.unconsumed_events(consumer, types, after_id, after, until, limit).await?;
        if self.has(Fault::UnconsumedExcludesRegisteredTypes) {
            rows.retain(|row| types.contains(&row.event_type.as_str()));
        }
        Ok(rows)
    }

    async fn stale_consumptions(
        &mut self,
        consumer: &str,
        except: &[&str],
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        let except = if self.has(Fault::StaleRecordsIncludeExceptedTypes) { &[] } else { except };
        if self.has(Fault::ExceptedTypesCountAgainstLimit) {
            let view = self.inner().outbox_view();
            let mut first = view.stale_consumptions(consumer, &[], idle_since, now, limit).await?;
            let all = view.stale_consumptions(consumer, except, idle_since, now, u32::MAX).await?;
            first.retain(|event| all.contains(event));
            return Ok(first);
        }
        self.inner().outbox_view().stale_consumptions(consumer, except, idle_since, now, limit).await
    }

    async fn registered_types(&mut self) -> Result<Vec<RegisteredType>, StoreError> {
        let mut types = self.inner().outbox_view().registered_types().await?;
        if self.has(Fault::RegisteredTypesIgnoreCase) {
            let mut seen = BTreeSet::new();
            types.retain(|it| seen.insert((it.consumer.to_lowercase(), it.event_type.to_lowercase())));
        }
        Ok(types)
    }

    async fn consumed_page(
        &mut self,
        filter: &ConsumedFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError> {
        let mut filter = filter.clone();
        if self.has(Fault::LogPagesIgnoreTenant) {
            filter.tenant = None;
        }
        if self.has(Fault::PagesIgnoreLowestId) {
            filter.above_id = None;
        }
        if self.has(Fault::PagesIgnoreTimes) {
            filter.from = None;
            filter.to = None;
        }
        let before = self.first_below(before);
        self.inner().outbox_view().consumed_page(&filter, before, limit).await
    }

    async fn consumed_of(&mut self, events: &[EventId]) -> Result<Vec<Consumed>, StoreError> {
        let mut rows = self.inner().outbox_view().consumed_of(events).await?;
        if self.has(Fault::ConsumeRecordsAreSortedByConsumer) {
            rows.sort_by(|a, b| a.consumer.cmp(&b.consumer));
        }
        Ok(rows)
    }

    async fn consume_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<ConsumeCounts, StoreError> {
        let tenant = if self.has(Fault::CountsIncludeAllTenants) { None } else { tenant };
        let max_ids = if self.has(Fault::CountsIncludeAllIds) { i64::MAX } else { max_ids };
        let mut counted = self.inner().outbox_view().consume_counts(tenant, max_ids).await?;
        if self.has(Fault::CountsOmitOlderIds) && counted.more_success {
            counted.counts.retain(|count| count.status == ConsumeStatus::Success);
        }
        Ok(counted)
    }
}

impl ConsumeLogWrapper for Unit {
    async fn subscribe_consumer(
        &mut self,
        consumer: &str,
        now: DateTime<Utc>,
    ) -> Result<ConsumerSubscription, StoreError> {
        let mut subscription = self.inner().outbox().subscribe_consumer(consumer, now).await?;
        if self.has(Fault::ArchiveHidesLastId) {
            let newest = self.inner().outbox().outbox_page(&OutboxFilter::default(), None, 1).await?;
            let last_id = newest.first().map_or(0, |row| row.id);
            subscription.after_id = subscription.after_id.min(last_id);
        }
        Ok(subscription)
    }

    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        if !self.has(Fault::RecordIgnoresExpectedState) {
            return self.inner().outbox().record(consumptions).await;
        }
        self.serialize().await;
        for row in consumptions {
            let now = self.inner().outbox().consumption(&row.consumer, &row.event_id).await?;
            let expected = now.map_or(Expected::Absent, |now| Expected::At(now.status, now.attempts));
            self.inner().outbox().record(&[Consumption { expected, ..row.clone() }]).await?;
        }
        Ok(())
    }

    async fn register_types(
        &mut self,
        consumer: &str,
        types: &[&str],
        for_ms: u32,
    ) -> Result<(), StoreError> {
        let mut registered = self.inner().outbox().registered_types().await?;
        registered.retain(|it| it.consumer == consumer);
        let mut types = types.to_vec();
        if self.has(Fault::RegistrationsAreNotRenewed) {
            types.retain(|event_type| !registered.iter().any(|it| it.event_type == *event_type));
        }
        if self.has(Fault::RegistrationsReplaceOthers) {
            self.inner().outbox().unregister_types(&registered).await?;
        }
        self.inner().outbox().register_types(consumer, &types, for_ms).await
    }

    async fn unregister_types(&mut self, ended: &[RegisteredType]) -> Result<(), StoreError> {
        let mut removed = ended.to_vec();
        if self.has(Fault::RenewedRegistrationsAreRemoved) {
            removed = self.inner().outbox().registered_types().await?;
        }
        self.inner().outbox().unregister_types(&removed).await
    }
}
