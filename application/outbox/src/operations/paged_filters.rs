//! Lists of operators, and which of their filters an index supports.

use async_trait::async_trait;
use handover_events::ConsumeStatus;

use super::id_window::{PagedFilter, is_indexed};
use crate::ports::{
    ArchivedEvent, AuditEntry, AuditFilter, Consumed, ConsumedFilter, DeadLetter, DeadLetterFilter,
    DeadLetterStatus, DeliveryFilter, DeliveryState, EndpointKey, Numbered, OutboxFilter, OutboxRow,
    OutboxView, StoreError, WebhookDelivery,
};

#[async_trait]
impl PagedFilter<dyn OutboxView + '_> for OutboxFilter {
    type Row = OutboxRow;

    fn id(row: &OutboxRow) -> i64 {
        row.id
    }

    fn searched(&self) -> Option<OutboxFilter> {
        (!is_indexed(self)).then(OutboxFilter::default)
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn OutboxView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        view.outbox_page(self, before, limit).await
    }
}

/// Archived events that match a filter.
pub(crate) struct Archived(pub(crate) OutboxFilter);

#[async_trait]
impl PagedFilter<dyn OutboxView + '_> for Archived {
    type Row = ArchivedEvent;

    fn id(event: &ArchivedEvent) -> i64 {
        event.id
    }

    fn searched(&self) -> Option<Archived> {
        let is_indexed = self.0.aggregate_type.is_some() && self.0.aggregate_id.is_some();
        (!is_indexed).then(|| Archived(OutboxFilter::default()))
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.0.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn OutboxView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        view.archived_page(&self.0, before, limit).await
    }
}

#[async_trait]
impl PagedFilter<dyn OutboxView + '_> for ConsumedFilter {
    type Row = Numbered<Consumed>;

    fn id(record: &Numbered<Consumed>) -> i64 {
        record.id
    }

    fn searched(&self) -> Option<ConsumedFilter> {
        let is_open = self.status.is_some_and(|status| status != ConsumeStatus::Success);
        (self.event_id.is_none() && !is_open).then(ConsumedFilter::default)
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn OutboxView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError> {
        view.consumed_page(self, before, limit).await
    }
}

#[async_trait]
impl PagedFilter<dyn OutboxView + '_> for DeadLetterFilter {
    type Row = Numbered<DeadLetter>;

    fn id(dead_letter: &Numbered<DeadLetter>) -> i64 {
        dead_letter.id
    }

    fn searched(&self) -> Option<DeadLetterFilter> {
        let is_undecided = self.status.is_some_and(DeadLetterStatus::is_undecided);
        let of_tenant = DeadLetterFilter { tenant: self.tenant, ..DeadLetterFilter::default() };
        let has_index = self.key.is_some() || is_undecided || of_tenant == *self;
        (!has_index).then(DeadLetterFilter::default)
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn OutboxView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        view.dead_letters_page(self, before, limit).await
    }
}

#[async_trait]
impl PagedFilter<dyn OutboxView + '_> for AuditFilter {
    type Row = Numbered<AuditEntry>;

    fn id(entry: &Numbered<AuditEntry>) -> i64 {
        entry.id
    }

    fn searched(&self) -> Option<AuditFilter> {
        let changes = self.changes && self.tenant.is_some();
        let indexed = AuditFilter { tenant: self.tenant, changes, ..AuditFilter::default() };
        (indexed != *self).then(AuditFilter::default)
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn OutboxView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError> {
        view.audit_page(self, before, limit).await
    }
}

/// Deliveries of an endpoint that match a filter.
pub(crate) struct Deliveries(pub(crate) EndpointKey, pub(crate) DeliveryFilter);

#[async_trait]
impl PagedFilter<dyn OutboxView + '_> for Deliveries {
    type Row = WebhookDelivery;

    fn id(delivery: &WebhookDelivery) -> i64 {
        delivery.id
    }

    fn searched(&self) -> Option<Deliveries> {
        let Deliveries(endpoint, filter) = self;
        let state = filter.state.filter(|state| *state == DeliveryState::Dead);
        let indexed = DeliveryFilter { state, ..DeliveryFilter::default() };
        (indexed != *filter).then_some(Deliveries(*endpoint, indexed))
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.1.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn OutboxView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let Deliveries(endpoint, filter) = self;
        view.webhook_deliveries_page(*endpoint, filter, before, limit).await
    }
}
