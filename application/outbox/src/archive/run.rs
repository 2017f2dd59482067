//! Moves settled events from the outbox to files.
//!
//! **Invariant:** an event leaves the outbox only after a file that contains it was stored durably, read back and recorded.
//! After an interruption at any point a later run continues: a file without a record is not used, and the events of a
//! recorded file that are still in the outbox leave it. Several processes may run at the same time: an event that is in
//! several files leaves the outbox once, and the database names the file that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use chrono::NaiveDate;
use handover_events::EventId;
use tokio::time::Instant;
use tracing::warn;

use super::collected::{Collected, Content};
use super::content::{read_file, read_recorded};
use super::kept::KeptBecause;
use super::mark::ArchiveMark;
use super::needed::{NeededEvents, Needs, ask};
use super::parts::{ArchiveParts, MAX_BATCH};
use super::policy::RetentionPolicy;
use super::selection::{examine, still_archivable};
use super::storage::ArchiveStorageError;
use crate::metrics::{ARCHIVE_BYTES, ARCHIVE_FILES, ARCHIVED};
use crate::outbox::Outbox;
use crate::ports::{ArchiveFile, Numbered, OutboxRow, StoreError, StoredEvent, UnrecordedState};
use crate::transaction::with_tx;

/// Maximum number of events that one run collects, apart from the last page.
pub const MAX_RUN_EVENTS: usize = 5_000;
/// A run collects no further event once the content of its files has this size.
const MAX_RUN_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of pages that one run examines.
const MAX_RUN_PAGES: usize = 100;
/// Smallest batch after batches that took too long.
const MIN_BATCH: usize = 16;
/// A batch that takes longer halves the next ones.
const SLOW_BATCH: Duration = Duration::from_millis(200);
/// After each unit of work and page the job pauses for this multiple of the time that it took: it uses the database for at most a
/// tenth of the time.
const PAUSE: u32 = 9;

/// Reason why the archive could not do its work. No event is lost: it is in the outbox or in a recorded file.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] ArchiveStorageError),
}

/// What one run did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchiveReport {
    /// Number of files that were written.
    pub files: u64,
    /// Size of these files; of a preview, the size of the events before compression.
    pub bytes: u64,
    /// Number of events that left the outbox; of a preview, of those that may leave it.
    pub events: u64,
    /// Number of examined events that stay, by the reason.
    pub kept: BTreeMap<KeptBecause, u64>,
    /// Whether events are left to examine.
    pub more: bool,
}

impl ArchiveReport {
    fn keep(&mut self, reason: KeptBecause, events: u64) {
        if events > 0 {
            *self.kept.entry(reason).or_default() += events;
        }
    }
}

/// The archive of an outbox. Clones share it.
#[derive(Clone)]
pub struct Archive {
    pub(crate) outbox: Outbox,
    pub(super) parts: ArchiveParts,
}

impl Archive {
    /// The archive of this outbox ([`Outbox::with_archive`]); `None`: it has none.
    pub fn of(outbox: &Outbox) -> Option<Archive> {
        let parts = outbox.archive.clone()?;
        Some(Archive { outbox: outbox.for_background_tasks(), parts })
    }

    /// The same archive with another retention policy.
    pub fn with_policy(self, policy: RetentionPolicy) -> Archive {
        Archive { parts: ArchiveParts { policy, ..self.parts }, ..self }
    }

    /// Archives about `max_events` of the events that may leave the outbox, from the mark on. Ends early when the process
    /// begins to stop.
    pub async fn run(
        &self,
        mark: &mut ArchiveMark,
        max_events: usize,
    ) -> Result<ArchiveReport, ArchiveError> {
        let mut report = ArchiveReport::default();
        self.run_into(mark, max_events, &mut report).await?;
        Ok(report)
    }

    /// As [`Archive::run`]; after an error the report says what was done before it.
    pub(crate) async fn run_into(
        &self,
        mark: &mut ArchiveMark,
        max_events: usize,
        report: &mut ArchiveReport,
    ) -> Result<(), ArchiveError> {
        report.more = true;
        match self.remove_unrecorded().await {
            // A storage that only refuses to remove files can archive events.
            Err(ArchiveError::Storage(error)) => {
                warn!(code = "archive.file-not-removed", %error, "[Archive] a file that is not recorded cannot be removed; the next run tries again");
            }
            removed @ (Ok(()) | Err(ArchiveError::Store(_))) => removed?,
        }
        let unfinished = self.outbox.view().await?.outbox_view().unfinished_archive_files().await?;
        for file in unfinished {
            let events = self.read(&file.effect).await?;
            self.remove(&file, &events, report).await?;
        }
        let mut collected = Collected::default();
        let mut after = mark.begin(self.outbox.now());
        for _ in 0..MAX_RUN_PAGES {
            let is_full = collected.events >= max_events || collected.bytes >= MAX_RUN_BYTES;
            if is_full || self.is_stopping() {
                break;
            }
            let next = self.paced(self.collect(after, &mut collected, report)).await?;
            match next {
                Some(next) => after = Some(next),
                None => {
                    report.more = false;
                    break;
                }
            }
        }
        for (day, content) in collected.days {
            if self.is_stopping() {
                report.more = true;
                return Ok(());
            }
            if !self.archive(day, content, report).await? {
                report.more = true;
                return Ok(());
            }
        }
        mark.after = after;
        Ok(())
    }

    /// Reports what a run would do, for the oldest 50,000 rows of the outbox. Nothing is changed.
    pub async fn preview(&self) -> Result<ArchiveReport, ArchiveError> {
        let mut report = ArchiveReport { more: true, ..ArchiveReport::default() };
        let mut after = None;
        for _ in 0..MAX_RUN_PAGES {
            let mut collected = Collected::default();
            let next = self.collect(after, &mut collected, &mut report).await?;
            report.events += count(collected.events);
            report.bytes += count(collected.bytes);
            match next {
                Some(next) => after = Some(next),
                None => {
                    report.more = false;
                    break;
                }
            }
        }
        Ok(report)
    }

    /// Adds the events of a page that may leave the outbox. Returns `after` of the next page.
    async fn collect(
        &self,
        after: Option<i64>,
        collected: &mut Collected,
        report: &mut ArchiveReport,
    ) -> Result<Option<i64>, StoreError> {
        let page = examine(&self.outbox, &self.parts.policy, &*self.parts.application, after).await?;
        for (reason, events) in page.kept {
            report.keep(reason, events);
        }
        let rows = page.archivable.into_iter().map(|event| event.row);
        let days: BTreeMap<EventId, NaiveDate> =
            rows.map(|row| (row.event_id, row.create_time.date_naive())).collect();
        let ids: Vec<EventId> = days.keys().cloned().collect();
        let stored = self.stored(&ids).await?;
        // An event that has left the outbox since it was examined is counted here, too.
        report.keep(KeptBecause::Unreadable, count(ids.len().saturating_sub(stored.len())));
        for event in stored {
            let Some(day) = days.get(&event.event_id) else { continue };
            collected.add(*day, event);
        }
        Ok(page.next)
    }

    /// Writes a file with these events, records it, and removes the events from the outbox. Returns false, without a file, if
    /// one of the events has changed since it was read.
    async fn archive(
        &self,
        day: NaiveDate,
        Content { events, lines }: Content,
        report: &mut ArchiveReport,
    ) -> Result<bool, ArchiveError> {
        let day = day.format("%Y/%m/%d").to_string();
        let name = self.paced(self.announce(&day, &events, &lines)).await?;
        // An erasure that masked the rows before the file was announced has not seen that there is a file to mask, too.
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        if self.paced(self.stored(&ids)).await? != events {
            self.forget(&name, UnrecordedState::Writing).await?;
            return Ok(false);
        }
        let file = self.write(name, &events, lines).await?;
        let id = self
            .paced(with_tx(&self.outbox.tx, file.clone(), |unit, file, attempt| {
                Box::pin(async move {
                    if attempt.may_be_committed() {
                        let recorded = unit.outbox().unfinished_archive_files().await?;
                        if let Some(recorded) = recorded.into_iter().find(|it| it.effect.name == file.name) {
                            return Ok(recorded.id);
                        }
                    }
                    Archive::end_writing(unit.outbox(), &file.name).await?;
                    unit.outbox().add_archive_file(file).await
                })
            }))
            .await;
        let id = self.unless_given_up(&file.name, id).await?;
        report.files += 1;
        report.bytes += file.bytes;
        metrics::counter!(ARCHIVE_FILES).increment(1);
        metrics::counter!(ARCHIVE_BYTES).increment(file.bytes);
        self.remove(&Numbered { id, effect: file }, &events, report).await?;
        Ok(true)
    }

    /// Removes the events of a recorded file from the outbox, in batches.
    async fn remove(
        &self,
        file: &Numbered<ArchiveFile>,
        events: &[StoredEvent],
        report: &mut ArchiveReport,
    ) -> Result<(), ArchiveError> {
        let mut left = events;
        while !left.is_empty() {
            if self.is_stopping() {
                // The next run continues.
                return Ok(());
            }
            let size = self.parts.batch.load(Ordering::Relaxed);
            let (batch, rest) = left.split_at(size.min(left.len()));
            left = rest;
            let begun = Instant::now();
            let removed = count(self.remove_batch(file.id, batch).await?.len());
            report.events += removed;
            metrics::counter!(ARCHIVED).increment(removed);
            let took = begun.elapsed();
            self.parts.batch.store(next_batch(size, took), Ordering::Relaxed);
            self.pause_after(took).await;
        }
        let done = (file.id, self.outbox.now());
        self.paced(with_tx(&self.outbox.tx, done, |unit, (file, now), _| {
            Box::pin(async move { unit.outbox().finish_archive_file(*file, *now).await })
        }))
        .await?;
        Ok(())
    }

    /// Removes events from the outbox in one unit of work, which checks again that they may leave it.
    async fn remove_batch(&self, file: i64, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let rows = self.outbox.view().await?.outbox_view().outbox_by_event(&ids).await?;
        // The application has a store of its own, so that it cannot be asked within the unit of work.
        let Needs { mut needed, unreadable } = ask(&*self.parts.application, &rows).await?;
        needed.extend(unreadable);
        let needed = NeededBefore(needed);
        let input = Arc::new((self.clone(), events.to_vec(), ids, needed));
        with_tx(&self.outbox.tx, input, move |unit, input, attempt| {
            Box::pin(async move {
                let (archive, events, ids, needed) = &**input;
                let outbox = unit.outbox();
                let mut left = Vec::new();
                if attempt.may_be_committed() {
                    let archived = outbox.archived_by_event(ids).await?;
                    left.extend(archived.into_iter().filter(|it| it.file == file).map(|it| it.event_id));
                }
                let view = unit.outbox_view();
                let may_leave =
                    still_archivable(&archive.outbox, view, &archive.parts.policy, needed, ids).await?;
                let is_archivable = |event: &&StoredEvent| may_leave.contains(&event.event_id);
                let events: Vec<StoredEvent> = events.iter().filter(is_archivable).cloned().collect();
                left.extend(unit.outbox().archive(file, &events).await?);
                Ok(left)
            })
        })
        .await
    }

    /// A recorded file with its events, also if an erasure replaces it meanwhile.
    pub(crate) async fn read_recorded(
        &self,
        file: i64,
    ) -> Result<(Numbered<ArchiveFile>, Vec<StoredEvent>), ArchiveError> {
        Ok(read_recorded(&self.outbox.tx, &*self.parts.storage, file).await??)
    }

    async fn stored(&self, events: &[EventId]) -> Result<Vec<StoredEvent>, StoreError> {
        self.outbox.view().await?.outbox_view().stored_events(events).await
    }

    /// The events of a file.
    pub(crate) async fn read(&self, file: &ArchiveFile) -> Result<Vec<StoredEvent>, ArchiveStorageError> {
        read_file(&*self.parts.storage, file).await
    }

    fn is_stopping(&self) -> bool {
        self.outbox.stopping().is_cancelled()
    }

    /// Work in the database, and the pause after it.
    async fn paced<T>(&self, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        self.pause_after(begun.elapsed()).await;
        done
    }

    /// Pauses after work that took this long, unless the process begins to stop.
    async fn pause_after(&self, took: Duration) {
        tokio::select! {
            biased;
            () = self.outbox.stopping().cancelled() => {}
            () = self.outbox.sleep(took * PAUSE) => {}
        }
    }
}

/// Size of the next batch after one of this size that took this long.
fn next_batch(size: usize, took: Duration) -> usize {
    if took > SLOW_BATCH {
        (size / 2).max(MIN_BATCH)
    } else if took < SLOW_BATCH / 4 {
        (size * 2).min(MAX_BATCH)
    } else {
        size
    }
}

/// The events that the application needed, or about which it could not read a stored value, when it was asked last.
struct NeededBefore(BTreeSet<EventId>);

#[async_trait]
impl NeededEvents for NeededBefore {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        let ids = rows.iter().map(|row| &row.event_id).filter(|id| self.0.contains(*id));
        Ok(ids.cloned().collect())
    }
}

pub(super) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
