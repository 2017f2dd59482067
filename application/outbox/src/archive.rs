//! Retention and archive: which events may leave the database, and where they are stored then.
//!
//! **Invariant:** an event stays while anything may still happen to it: it is not published, a consumer that it concerns has
//! not settled it, a webhook delivery of it is pending, a dead letter of it is undecided, or the application needs it.

mod kept;
mod policy;
mod selection;
mod storage;

pub use kept::KeptBecause;
pub use policy::RetentionPolicy;
pub use selection::{
    ArchivableEvent, ExaminedPage, MAX_EXAMINED_ROWS, NeededEvents, NoNeededEvents, examine,
};
pub use storage::{ArchiveStorage, ArchiveStorageError, WrittenFile};
