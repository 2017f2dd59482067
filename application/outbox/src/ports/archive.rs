//! Events in the archive: what the database keeps of them, and how they leave the database and return to it.
//!
//! **Invariant:** an event is in the outbox or in the archive. Until its row has left the outbox, only the row counts.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId};

use super::consume::Consumed;
use super::erasure::Erasure;
use super::error::{Changed, StoreError};
use super::numbered::Numbered;
use super::operator::OutboxFilter;
use super::outbox::OutboxRow;

/// What the database keeps of an event whose row is in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedEvent {
    /// Id of its row in the outbox.
    pub id: i64,
    /// Event id.
    pub event_id: EventId,
    /// Event type.
    pub event_type: String,
    /// Aggregate of the event.
    pub aggregate: AggregateRef,
    /// Position within the aggregate.
    pub aggregate_seq: i64,
    /// Time at which the event happened.
    pub create_time: DateTime<Utc>,
    /// Id of the file that contains the event ([`ArchiveFile`]).
    pub file: i64,
}

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Name of the file, unique, at most 255 bytes.
    pub name: String,
    /// Number of events in the file.
    pub events: u64,
    /// Number of their consume-log records.
    pub records: u64,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file in hexadecimal digits.
    pub sha256: String,
    /// Smallest row id of its events.
    pub first_id: i64,
    /// Greatest row id of its events.
    pub last_id: i64,
    /// Time at which the file was recorded.
    pub create_time: DateTime<Utc>,
    /// Time at which all events of the file had left the outbox, apart from those that changed; `None`: not yet.
    pub done_time: Option<DateTime<Utc>>,
    /// Time and reason of the last erasure that masked texts in the file.
    pub erased: Option<Erasure>,
}

/// Why a file may exist without a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrecordedState {
    /// A process writes it and will record it, unless the process has ended.
    Writing,
    /// Nothing refers to it any more; it has to be removed.
    Obsolete,
}

impl UnrecordedState {
    /// Name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            UnrecordedState::Writing => "WRITING",
            UnrecordedState::Obsolete => "OBSOLETE",
        }
    }
}

impl std::str::FromStr for UnrecordedState {
    type Err = String;

    fn from_str(name: &str) -> Result<UnrecordedState, String> {
        let states = [UnrecordedState::Writing, UnrecordedState::Obsolete];
        let found = states.into_iter().find(|state| state.as_str() == name);
        found.ok_or_else(|| format!("unknown state {name:?}"))
    }
}

/// A file that the storage may have although it is not recorded as a file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnrecordedFile {
    /// Name of the file, unique, at most 255 bytes.
    pub name: String,
    /// Why it is not recorded.
    pub state: UnrecordedState,
    /// Time since which it is known.
    pub since: DateTime<Utc>,
}

/// A stored value that is not NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredValue {
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
    /// A time, with microsecond precision.
    Time(DateTime<Utc>),
}

/// The values of a row by column, without NULL values and computed columns.
pub type StoredRow = BTreeMap<String, StoredValue>;

/// An event with every stored value of its rows, whether or not this version can interpret them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Row id.
    pub id: i64,
    /// Event id.
    pub event_id: EventId,
    /// The row of the outbox.
    pub row: StoredRow,
    /// The consume-log records, by ascending row id.
    pub records: Vec<StoredRow>,
}

/// An event with its consume-log records, as this version interprets their stored values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventWithRecords {
    /// Outbox row.
    pub row: OutboxRow,
    /// Consume-log records, by ascending row id.
    pub records: Vec<Consumed>,
}

/// Reads what the database knows about the archive.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait ArchiveQueries: Send {
    /// Those of these events that are in the archive, in any order.
    async fn archived_by_event(&mut self, events: &[EventId]) -> Result<Vec<ArchivedEvent>, StoreError>;

    /// The archived events of these aggregates, ordered by aggregate, `aggregate_seq` and id.
    async fn archived_about(&mut self, aggregates: &[AggregateRef])
    -> Result<Vec<ArchivedEvent>, StoreError>;

    /// At most `limit` archived events that match a filter, with an id below `before`, greatest id first. The status of the
    /// filter has no effect: every archived event is `SENT`.
    async fn archived_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ArchivedEvent>, StoreError>;

    /// Interprets the stored values of archived events as rows. An event with a value that this version cannot interpret is
    /// omitted.
    async fn interpret_stored(&mut self, events: &[StoredEvent])
    -> Result<Vec<EventWithRecords>, StoreError>;

    /// The stored values of those of these events that are in the outbox, smallest id first. An event with a value that
    /// cannot be decoded is omitted. `restored_time` says something about the row, not about the event, and is left out.
    async fn stored_events(&mut self, events: &[EventId]) -> Result<Vec<StoredEvent>, StoreError>;

    /// The recorded files that are not done, oldest first.
    async fn unfinished_archive_files(&mut self) -> Result<Vec<Numbered<ArchiveFile>>, StoreError>;

    /// At most `limit` recorded files with an id below `before`, greatest id first.
    async fn archive_files(
        &mut self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ArchiveFile>>, StoreError>;

    /// At most `limit` files that may exist without a record, by name.
    async fn unrecorded_files(&mut self, limit: u32) -> Result<Vec<UnrecordedFile>, StoreError>;
}

/// Moves events between the outbox and the archive.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait ArchiveRepo: Send {
    /// Records a file and returns its id. A recorded name MUST cause a `Conflict`.
    async fn add_archive_file(&mut self, file: &ArchiveFile) -> Result<i64, StoreError>;

    /// Sets the `done_time` of a file.
    async fn finish_archive_file(&mut self, file: i64, at: DateTime<Utc>) -> Result<(), StoreError>;

    /// Removes the rows of these events and their consume-log records, and records the events as archived in this file;
    /// returns the removed events. The caller MUST have stored them durably in the file.
    ///
    /// MUST remove only an event that is `SENT` and of which every stored value and every record is still the given one,
    /// even if another unit of work changes the event at the same time. From then on:
    ///
    /// - The numbers that the store assigns to later events of its aggregate MUST be higher than its `aggregate_seq`.
    /// - [`subscribe_consumer`](super::ConsumeLog::subscribe_consumer) MUST count its id as one of the outbox.
    async fn archive(&mut self, file: i64, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError>;

    /// Inserts the rows of those of these events that are archived, with all their values and records, and removes the
    /// records of their archiving; returns the inserted events. Events that are not archived MUST NOT be inserted. `at` is
    /// the `restored_time` of the rows, which is no stored value ([`ArchiveQueries::stored_events`]).
    async fn restore(
        &mut self,
        events: &[StoredEvent],
        at: DateTime<Utc>,
    ) -> Result<Vec<EventId>, StoreError>;

    /// A recorded file. Until the unit of work ends, another one MUST NOT be able to replace it.
    async fn lock_archive_file(&mut self, file: i64) -> Result<Option<ArchiveFile>, StoreError>;

    /// Records that the content of a file is in another file from now on: its name, size, checksum and erasure become those
    /// of `to`. MUST change nothing unless the recorded name is `from`.
    async fn replace_archive_file(
        &mut self,
        file: i64,
        from: &str,
        to: &ArchiveFile,
    ) -> Result<Changed, StoreError>;

    /// Adds a file that may exist without a record. A known name MUST cause a `Conflict`.
    async fn add_unrecorded_file(&mut self, file: &UnrecordedFile) -> Result<(), StoreError>;

    /// Makes a file that is being written obsolete: of this and [`ArchiveRepo::remove_unrecorded_file`] by the process that
    /// writes it, only one MUST succeed.
    async fn give_up_unrecorded_file(&mut self, name: &str) -> Result<Changed, StoreError>;

    /// Removes the entry of a file in this state: it was recorded, or it does not exist any more.
    async fn remove_unrecorded_file(
        &mut self,
        name: &str,
        state: UnrecordedState,
    ) -> Result<Changed, StoreError>;
}
