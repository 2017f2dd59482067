//! Faults of the archive.

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> ArchiveQueriesWrapper for Faulty<U> {
    async fn archived_by_event(&mut self, events: &[EventId]) -> Result<Vec<ArchivedEvent>, StoreError> {
        let mut found = self.inner().outbox_view().archived_by_event(events).await?;
        if self.has(Fault::ArchivedEventsAreForgotten) {
            found.clear();
        }
        Ok(found)
    }

    async fn archived_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        let filter = match self.has(Fault::ArchivedPagesIgnoreFilter) {
            true => OutboxFilter::default(),
            false => filter.clone(),
        };
        self.inner().outbox_view().archived_page(&filter, before, limit).await
    }

    async fn interpret_stored(
        &mut self,
        events: &[StoredEvent],
    ) -> Result<Vec<EventWithRecords>, StoreError> {
        let mut interpreted = self.inner().outbox_view().interpret_stored(events).await?;
        if self.has(Fault::InterpretedEventsLoseRecords) {
            interpreted.iter_mut().for_each(|event| event.records.clear());
        }
        Ok(interpreted)
    }
}

impl ArchiveRepoWrapper for Unit {
    async fn finish_archive_file(&mut self, file: i64, at: DateTime<Utc>) -> Result<(), StoreError> {
        if self.has(Fault::ArchiveFilesAreNeverDone) {
            return Ok(());
        }
        self.inner().outbox().finish_archive_file(file, at).await
    }

    async fn archive(&mut self, file: i64, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        if self.has(Fault::ArchiveIsWrittenOutsideUnit) {
            let mut own = self.shared.inner.begin().await?;
            let left = own.outbox().archive(file, events).await?;
            own.commit().await?;
            return Ok(left);
        }
        if self.has(Fault::ArchiveIgnoresChanges) {
            let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
            let current = self.inner().outbox().stored_events(&ids).await?;
            return self.inner().outbox().archive(file, &current).await;
        }
        self.inner().outbox().archive(file, events).await
    }

    async fn restore(&mut self, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let restored = self.inner().outbox().restore(events).await?;
        if self.has(Fault::RestoreReportsEveryEvent) {
            return Ok(events.iter().map(|event| event.event_id.clone()).collect());
        }
        Ok(restored)
    }
}
