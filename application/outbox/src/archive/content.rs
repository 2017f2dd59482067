//! Reads the content of archived events from their files.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::EventId;

use super::format::decode;
use super::storage::{ArchiveStorage, ArchiveStorageError};
use crate::ports::{
    ArchiveFile, ArchivedEvent, EventWithRecords, Numbered, StoreError, StoredEvent, UnitOfWork, View,
};
use crate::transaction::Transactor;

/// The content of an archived event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedContent {
    /// The event with its consume-log records.
    pub event: EventWithRecords,
    /// Name of the file that contains it.
    pub file: String,
}

/// Result of [`read_archived`]: for each event its content, or the reason why it cannot be read.
pub type ArchivedContents = BTreeMap<EventId, Result<ArchivedContent, ArchiveStorageError>>;

/// Reads the content of archived events, each file once. No view is open while a file is read.
pub async fn read_archived<U, V>(
    tx: &Transactor<U, V>,
    storage: &dyn ArchiveStorage,
    archived: &[ArchivedEvent],
) -> Result<ArchivedContents, StoreError>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
{
    let mut by_file: BTreeMap<i64, BTreeSet<EventId>> = BTreeMap::new();
    for event in archived {
        by_file.entry(event.file).or_default().insert(event.event_id.clone());
    }
    let mut contents = ArchivedContents::new();
    for (file, events) in by_file {
        match read_recorded(tx, storage, file).await? {
            Err(error) => contents.extend(events.into_iter().map(|event| (event, Err(error.clone())))),
            Ok((file, mut stored)) => {
                let name = file.effect.name;
                stored.retain(|event| events.contains(&event.event_id));
                let interpreted = tx.view().await?.outbox_view().interpret_stored(&stored).await?;
                let why = "it has no event with this id that this version can interpret";
                contents.extend(events.into_iter().map(|event| (event, Err(damaged(&name, why)))));
                contents.extend(interpreted.into_iter().map(|event| {
                    let content = ArchivedContent { file: name.clone(), event };
                    (content.event.row.event_id.clone(), Ok(content))
                }));
            }
        }
    }
    Ok(contents)
}

/// A recorded file with its events, also if an erasure replaces it meanwhile.
pub(super) async fn read_recorded<U, V>(
    tx: &Transactor<U, V>,
    storage: &dyn ArchiveStorage,
    file: i64,
) -> Result<Result<(Numbered<ArchiveFile>, Vec<StoredEvent>), ArchiveStorageError>, StoreError>
where
    U: UnitOfWork + ?Sized + 'static,
    V: View + ?Sized + 'static,
{
    let mut missing = None;
    loop {
        let recorded = tx.view().await?.outbox_view().archive_files(Some(file.saturating_add(1)), 1).await?;
        let Some(recorded) = recorded.into_iter().find(|recorded| recorded.id == file) else {
            return Ok(Err(ArchiveStorageError::Missing { name: format!("with the id {file}") }));
        };
        match read_file(storage, &recorded.effect).await {
            Err(ArchiveStorageError::Missing { name }) if missing.as_ref() != Some(&name) => {
                missing = Some(name)
            }
            read => return Ok(read.map(|events| (recorded, events))),
        }
    }
}

/// The events of a file.
pub(super) async fn read_file(
    storage: &dyn ArchiveStorage,
    file: &ArchiveFile,
) -> Result<Vec<StoredEvent>, ArchiveStorageError> {
    let content = storage.read(&file.name, &file.sha256).await?;
    let lines = String::from_utf8(content).map_err(|error| damaged(&file.name, error))?;
    decode(&lines).map_err(|line| damaged(&file.name, format!("line {line} is not an event")))
}

pub(super) fn damaged(name: &str, why: impl ToString) -> ArchiveStorageError {
    ArchiveStorageError::Damaged { name: name.to_owned(), why: why.to_string() }
}
