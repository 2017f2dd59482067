//! Files that may exist although no row of the database records them as files of the archive.
//!
//! **Invariant:** a file is announced in the database before it is written, and it is recorded in the unit of work that removes
//! the announcement. So the files that a process left when it ended, and those that were replaced, are found and removed.

use chrono::TimeDelta;

use super::content::damaged;
use super::run::{Archive, ArchiveError, count};
use crate::ports::{
    ArchiveFile, Changed, OutboxUnit, StoreError, StoredEvent, UnrecordedFile, UnrecordedState,
};
use crate::storable_text::hash;
use crate::transaction::with_tx;

/// A file that was announced this long ago and is not recorded is given up: its process has ended.
const MAX_WRITING: TimeDelta = TimeDelta::hours(1);
/// Maximum number of files that one call removes.
const MAX_REMOVED: u32 = 100;
/// Errors of the storage after which a run removes no more files: it may be unreachable, and each attempt then takes long.
const MAX_REFUSED: usize = 5;

impl Archive {
    /// Announces a file with these events, whose encoded form is `lines`. Returns its name.
    pub(crate) async fn announce(
        &self,
        folder: &str,
        events: &[StoredEvent],
        lines: &str,
    ) -> Result<String, StoreError> {
        let ids = events.iter().map(|event| event.id);
        let first_id = ids.clone().min().unwrap_or_default();
        let last_id = ids.max().unwrap_or_default();
        // With the checksum of the content, a file never takes the place of one with other events, and with the random
        // number, two processes never write and record the same file.
        let random = self.outbox.random().next();
        let content = hash(lines);
        let content = content.get(..16).unwrap_or(&content);
        let name = format!("{folder}/{first_id}-{last_id}-{random:016x}-{content}.jsonl");
        let since = self.outbox.now();
        let file = UnrecordedFile { name: name.clone(), state: UnrecordedState::Writing, since };
        with_tx(&self.outbox.tx, file, |unit, file, attempt| {
            Box::pin(async move {
                if attempt.may_be_committed() {
                    let state = UnrecordedState::Writing;
                    let _: Changed = unit.outbox().remove_unrecorded_file(&file.name, state).await?;
                }
                unit.outbox().add_unrecorded_file(file).await
            })
        })
        .await?;
        Ok(name)
    }

    /// Writes an announced file, and reads it back.
    pub(crate) async fn write(
        &self,
        name: String,
        events: &[StoredEvent],
        lines: String,
    ) -> Result<ArchiveFile, ArchiveError> {
        let written = self.parts.storage.write(&name, lines.as_bytes()).await?;
        drop(lines);
        let ids = events.iter().map(|event| event.id);
        let file = ArchiveFile {
            events: count(events.len()),
            records: count(events.iter().map(|event| event.records.len()).sum()),
            bytes: written.bytes,
            sha256: written.sha256,
            first_id: ids.clone().min().unwrap_or_default(),
            last_id: ids.max().unwrap_or_default(),
            create_time: self.outbox.now(),
            done_time: None,
            erased: None,
            name,
        };
        if self.read(&file).await? != events {
            let why = "the events that were read back are not those that were written";
            return Err(damaged(&file.name, why).into());
        }
        Ok(file)
    }

    /// The result of the unit of work that records a file. A file that took so long to write that another process gave it up is
    /// removed.
    pub(crate) async fn unless_given_up<T>(
        &self,
        name: &str,
        recorded: Result<T, StoreError>,
    ) -> Result<T, ArchiveError> {
        if let Err(StoreError::Conflict { .. }) = &recorded {
            self.parts.storage.remove(name).await?;
        }
        Ok(recorded?)
    }

    /// Removes obsolete files, and those that a process left when it ended. The first error of the storage is returned after other files
    /// were tried.
    pub(crate) async fn remove_unrecorded(&self) -> Result<(), ArchiveError> {
        let given_up = self.outbox.now() - MAX_WRITING;
        let files = self.outbox.view().await?.outbox_view().unrecorded_files(MAX_REMOVED).await?;
        let mut errors = Vec::new();
        for file in files {
            if errors.len() >= MAX_REFUSED {
                break;
            }
            let is_obsolete = match file.state {
                UnrecordedState::Obsolete => true,
                UnrecordedState::Writing => file.since <= given_up && self.give_up(&file.name).await?,
            };
            if is_obsolete {
                match self.remove_obsolete(&file.name).await {
                    Err(error @ ArchiveError::Storage(_)) => errors.push(error),
                    removed => removed?,
                }
            }
        }
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Removes an obsolete file.
    pub(crate) async fn remove_obsolete(&self, name: &str) -> Result<(), ArchiveError> {
        self.parts.storage.remove(name).await?;
        self.forget(name, UnrecordedState::Obsolete).await?;
        Ok(())
    }

    /// Makes a file obsolete; false if it was recorded meanwhile.
    async fn give_up(&self, name: &str) -> Result<bool, StoreError> {
        let given_up = with_tx(&self.outbox.tx, name.to_owned(), |unit, name, _| {
            Box::pin(async move { unit.outbox().give_up_unrecorded_file(name).await })
        });
        // After a repeated attempt, the next call removes the file.
        Ok(given_up.await? == Changed::One)
    }

    /// Removes the entry of a file that does not exist any more.
    pub(super) async fn forget(&self, name: &str, state: UnrecordedState) -> Result<(), StoreError> {
        let _: Changed = with_tx(&self.outbox.tx, (name.to_owned(), state), |unit, (name, state), _| {
            Box::pin(async move { unit.outbox().remove_unrecorded_file(name, *state).await })
        })
        .await?;
        Ok(())
    }

    /// Removes the announcement of a file, in the unit of work that records it.
    pub(crate) async fn end_writing(outbox: &mut dyn OutboxUnit, name: &str) -> Result<(), StoreError> {
        match outbox.remove_unrecorded_file(name, UnrecordedState::Writing).await? {
            Changed::One => Ok(()),
            Changed::None => Err(StoreError::Conflict {
                what: format!("the file {name} of the archive, which took too long to write"),
            }),
        }
    }
}
