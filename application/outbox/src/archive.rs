//! Retention and archive: which events may leave the database, and how they leave it and return.
//!
//! **Invariant:** an event stays while anything may still happen to it: it is not published, a consumer that it concerns has
//! not settled it, a webhook delivery of it is pending, a dead letter of it is undecided, or the application needs it.

mod collected;
mod content;
mod erased;
mod format;
mod job;
mod kept;
mod mark;
mod needed;
mod parts;
mod policy;
mod run;
mod selection;
mod storage;
mod unrecorded;

pub use content::{ArchivedContent, ArchivedContents, read_archived};
pub(crate) use erased::erased;
pub(crate) use format::encode;
pub use job::ArchiveJob;
pub(crate) use job::JOB;
pub use kept::KeptBecause;
pub use mark::ArchiveMark;
pub use needed::{NeededEvents, NoNeededEvents};
pub(crate) use parts::{ArchiveParts, MAX_BATCH};
pub use policy::{MIN_RETENTION, RetentionPolicy};
pub use run::{Archive, ArchiveError, ArchiveReport, MAX_RUN_EVENTS};
pub(crate) use selection::settled;
pub use selection::{ArchivableEvent, ExaminedPage, MAX_EXAMINED_ROWS, examine};
pub use storage::{ArchiveStorage, ArchiveStorageError, WrittenFile, probe};
