//! Archived events: each committed event is in the outbox or in a readable file of the archive, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use handover_events::EventId;
use handover_memory::MemoryArchive;
use handover_outbox::archive::{Archive, read_archived};
use handover_outbox::ports::{ArchivedEvent, DeadLetterStatus, EventWithRecords, OutboxFilter, StoreError};

use super::{ALL, Checker, Evidence};

/// Reads archived events from their files, each file once: a file does not change.
#[derive(Clone)]
pub(crate) struct ArchiveReader {
    storage: MemoryArchive,
    read: Arc<Mutex<BTreeMap<(EventId, i64), EventWithRecords>>>,
}

impl ArchiveReader {
    pub(crate) fn of(storage: MemoryArchive) -> ArchiveReader {
        ArchiveReader { storage, read: Arc::default() }
    }

    /// All archived events. Reports a violation for each that cannot be read.
    pub(super) async fn events(&self, evidence: &Evidence) -> Result<Vec<EventWithRecords>, StoreError> {
        let archived = archived(evidence).await?;
        let known = |event: &ArchivedEvent| self.known().contains_key(&(event.event_id.clone(), event.file));
        let new: Vec<ArchivedEvent> = archived.iter().filter(|event| !known(event)).cloned().collect();
        let contents = read_archived(&evidence.app.tx, &self.storage, &new).await?;
        for event in &new {
            match contents.get(&event.event_id) {
                Some(Ok(content)) => {
                    self.known().insert((event.event_id.clone(), event.file), content.event.clone());
                }
                Some(Err(error)) => {
                    let violation = format!("archived event {} cannot be read: {error}", event.event_id);
                    evidence.faults.violation(violation);
                }
                None => {
                    evidence.faults.violation(format!("archived event {} was not read", event.event_id));
                }
            }
        }
        let known = self.known();
        Ok(archived.into_iter().filter_map(|it| known.get(&(it.event_id, it.file)).cloned()).collect())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<(EventId, i64), EventWithRecords>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn archived(evidence: &Evidence) -> Result<Vec<ArchivedEvent>, StoreError> {
    evidence.store.view().await?.outbox_view().archived_page(&OutboxFilter::default(), None, ALL).await
}

/// The recorded files whose events have not all left the outbox.
pub(super) async fn unfinished(evidence: &Evidence) -> Result<Vec<String>, StoreError> {
    if evidence.archive.is_none() {
        return Ok(Vec::new());
    }
    let files = evidence.store.view().await?.outbox_view().unfinished_archive_files().await?;
    Ok(files
        .into_iter()
        .map(|file| format!("the file {} of the archive is not done", file.effect.name))
        .collect())
}

pub(super) async fn check(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    let evidence = checker.evidence;
    if evidence.archive.is_none() {
        return Ok(());
    }
    let in_archive: BTreeSet<EventId> =
        archived(evidence).await?.into_iter().map(|event| event.event_id).collect();
    let rows = checker.view.outbox_view().outbox_page(&OutboxFilter::default(), None, ALL).await?;
    for row in rows.iter().filter(|row| in_archive.contains(&row.event_id)) {
        checker.violation(format!("{} is in the outbox and in the archive", row.event_id));
    }
    let (appended, deleted) =
        evidence.faults.observed(|observed| (observed.appended.clone(), observed.deleted.clone()));
    let known: BTreeSet<&EventId> = checker.rows.iter().map(|row| &row.event_id).collect();
    for lost in appended.iter().filter(|event| !known.contains(event) && !deleted.contains(event)) {
        checker.violation(format!("{lost} was committed, but is neither in the outbox nor in the archive"));
    }
    let mut undecided = Vec::new();
    for dead_letter in checker.dead_letters.values() {
        let is_open = matches!(dead_letter.status, DeadLetterStatus::Open | DeadLetterStatus::Replaying);
        if is_open && in_archive.iter().any(|event| event.as_str() == dead_letter.key) {
            undecided.push(format!("{} is in the archive, and has an open dead letter", dead_letter.key));
        }
    }
    undecided.into_iter().for_each(|violation| checker.violation(violation));
    Ok(())
}

/// Number of events that may leave the outbox.
pub(crate) async fn archivable(evidence: &Evidence) -> Result<u64, StoreError> {
    match Archive::of(&evidence.app.outbox) {
        Some(archive) => Ok(archive.preview().await?.events),
        None => Ok(0),
    }
}
