//! Faults of the consume log.

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
        Ok(found)
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

    async fn consume_counts(&mut self, tenant: Option<TenantId>) -> Result<Vec<ConsumeCount>, StoreError> {
        let tenant = if self.has(Fault::CountsIncludeAllTenants) { None } else { tenant };
        self.inner().outbox_view().consume_counts(tenant).await
    }
}

impl ConsumeLogWrapper for Unit {
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
}
