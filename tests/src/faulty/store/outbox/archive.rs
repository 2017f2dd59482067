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

    async fn restore(
        &mut self,
        events: &[StoredEvent],
        at: DateTime<Utc>,
    ) -> Result<Vec<EventId>, StoreError> {
        let at = if self.has(Fault::RestoreForgetsTime) { DateTime::UNIX_EPOCH } else { at };
        let restored = self.inner().outbox().restore(events, at).await?;
        if self.has(Fault::RestoreReportsEveryEvent) {
            return Ok(events.iter().map(|event| event.event_id.clone()).collect());
        }
        Ok(restored)
    }

    async fn lock_archive_file(&mut self, file: i64) -> Result<Option<ArchiveFile>, StoreError> {
        if self.has(Fault::ArchiveFilesAreNotLocked) {
            let files = self.inner().outbox().archive_files(Some(file + 1), 1).await?;
            return Ok(files.into_iter().find(|it| it.id == file).map(|it| it.effect));
        }
        self.inner().outbox().lock_archive_file(file).await
    }

    async fn replace_archive_file(
        &mut self,
        file: i64,
        from: &str,
        to: &ArchiveFile,
    ) -> Result<Changed, StoreError> {
        if self.has(Fault::AnyArchiveFileIsReplaced) {
            let current = self.inner().outbox().lock_archive_file(file).await?;
            let from = current.map_or_else(|| from.to_owned(), |current| current.name);
            return self.inner().outbox().replace_archive_file(file, &from, to).await;
        }
        self.inner().outbox().replace_archive_file(file, from, to).await
    }

    async fn give_up_unrecorded_file(&mut self, name: &str) -> Result<Changed, StoreError> {
        let given_up = self.inner().outbox().give_up_unrecorded_file(name).await?;
        Ok(if self.has(Fault::RecordedFilesAreGivenUp) { Changed::One } else { given_up })
    }
}
