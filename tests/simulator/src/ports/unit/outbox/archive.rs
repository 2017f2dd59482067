//! Checks the archive: an event leaves the outbox only when nothing needs it, and returns as it was.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, OutboxStatus};
use handover_outbox::ports::{
    ArchiveFile, ArchiveRepoWrapper, Clock as _, Consumed, DeadLetter, DeliveryState, EventWithRecords,
    OutboxRow, StoreError, StoredEvent, WebhookDelivery,
};
use marketplace::ports::MarketUnit;
use marketplace_domain::{Hold, HoldStatus, OrderId, Refund, RefundStatus};

use super::super::{Faulty, Unit};
use super::rows::of;
use crate::machines::ARCHIVED;

/// A hold or refund that is not older may have begun after the archive asked the application for the events that it needs.
const RECENT: TimeDelta = TimeDelta::seconds(20);

impl ArchiveRepoWrapper for Unit {
    async fn add_archive_file(&mut self, file: &ArchiveFile) -> Result<i64, StoreError> {
        let id = self.inner.outbox().add_archive_file(file).await?;
        self.writes.records_file = true;
        Ok(id)
    }

    async fn archive(&mut self, file: i64, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let before = self.with_records(&ids).await?;
        let archived = self.inner.outbox().archive(file, events).await?;
        for event in before.into_iter().filter(|event| archived.contains(&event.row.event_id)) {
            self.transition(("outbox row", event.row.status.as_str(), ARCHIVED), || of(&event.row));
            self.check_archived(&event).await?;
            self.writes.archived.push(event);
        }
        Ok(archived)
    }

    async fn restore(
        &mut self,
        events: &[StoredEvent],
        at: DateTime<Utc>,
    ) -> Result<Vec<EventId>, StoreError> {
        let restored = self.inner.outbox().restore(events, at).await?;
        for event in self.with_records(&restored).await? {
            self.transition(("outbox row", ARCHIVED, event.row.status.as_str()), || of(&event.row));
            self.check_restored(&event);
        }
        self.writes.restores |= !restored.is_empty();
        self.writes.by_operator |= !restored.is_empty();
        Ok(restored)
    }
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    /// The rows of these events with their consume-log records.
    async fn with_records(&mut self, events: &[EventId]) -> Result<Vec<EventWithRecords>, StoreError> {
        let mut records: BTreeMap<EventId, Vec<Consumed>> = BTreeMap::new();
        for record in self.inner.outbox().consumed_of(events).await? {
            records.entry(record.event_id.clone()).or_default().push(record);
        }
        let rows = self.rows(events).await?.into_iter();
        let with_records = |row: OutboxRow| EventWithRecords {
            records: records.remove(&row.event_id).unwrap_or_default(),
            row,
        };
        Ok(rows.map(with_records).collect())
    }

    /// The event was SENT, every consumer has settled it, and no dead letter, delivery, hold or refund needs it.
    async fn check_archived(&mut self, event: &EventWithRecords) -> Result<(), StoreError> {
        let EventWithRecords { row, records } = event;
        let mut reasons = Vec::new();
        if row.status != OutboxStatus::Sent {
            reasons.push(format!("is {}", row.status));
        }
        for consumer in self.process.consumers.values() {
            let record = records.iter().find(|record| record.consumer == consumer.consumer);
            let is_concerned = consumer.event_types.contains(&row.event_type)
                && (record.is_some() || !row.idle_consumers.contains(&consumer.consumer));
            if is_concerned && !record.is_some_and(|record| record.record.status.is_settled()) {
                reasons.push(format!("is not settled by {}", consumer.consumer));
            }
        }
        let id = std::slice::from_ref(&row.event_id);
        let dead_letters = self.inner.outbox().dead_letters_of(&[row.event_id.to_string()]).await?;
        if dead_letters.iter().any(is_undecided) {
            reasons.push("has an open dead letter".to_owned());
        }
        let deliveries = self.inner.outbox().webhook_deliveries_of(id).await?;
        let is_pending = |delivery: &WebhookDelivery| delivery.state == DeliveryState::Pending;
        if deliveries.iter().any(is_pending) {
            reasons.push("has a pending delivery".to_owned());
        }
        if row.aggregate.kind == "Order" {
            reasons.extend(self.open_case(row).await?);
        }
        for reason in reasons {
            self.writes.violations.push(format!("{} was archived, but {reason}", of(row)));
        }
        Ok(())
    }

    /// A hold or refund of the order of this event that has been open for long. Findings are not checked: one that was closed may
    /// have been opened again since the archive asked.
    async fn open_case(&mut self, row: &OutboxRow) -> Result<Option<String>, StoreError> {
        let Ok(order) = OrderId::try_from(&row.aggregate.id) else { return Ok(None) };
        let tenant = row.aggregate.tenant;
        let before = self.process.clock.now() - RECENT;
        let is_frozen = |hold: &Hold| hold.status == HoldStatus::Frozen && hold.create_time < before;
        let is_running =
            |refund: &Refund| refund.status == RefundStatus::Processing && refund.create_time < before;
        if self.inner.holds_of(tenant, &[order]).await?.iter().any(is_frozen) {
            return Ok(Some(format!("order {order} has a frozen hold")));
        }
        if self.inner.refunds_of(tenant, &[order]).await?.iter().any(is_running) {
            return Ok(Some(format!("order {order} has a refund without a result")));
        }
        Ok(None)
    }

    /// The restored event is the one that was archived. A record that was written since then may have replaced one.
    fn check_restored(&mut self, event: &EventWithRecords) {
        let id = &event.row.event_id;
        let Some(before) = self.process.faults.observed(|observed| observed.archived.get(id).cloned()) else {
            self.writes.violations.push(format!("{} was restored, but never archived", of(&event.row)));
            return;
        };
        let is_there = |record: &Consumed| {
            let mut same = event.records.iter().filter(|it| it.consumer == record.consumer);
            same.any(|it| it == record || it.record.consume_time > record.record.consume_time)
        };
        // The time of the restore is no part of what was archived.
        let row = OutboxRow { restored_time: before.row.restored_time, ..event.row.clone() };
        if row != before.row || !before.records.iter().all(is_there) {
            let violation =
                format!("{} was restored as {event:?}, but archived as {before:?}", of(&event.row));
            self.writes.violations.push(violation);
        }
    }
}

fn is_undecided(dead_letter: &DeadLetter) -> bool {
    dead_letter.status.is_undecided()
}
