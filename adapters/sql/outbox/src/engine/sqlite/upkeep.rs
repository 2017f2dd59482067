//! State of the database file that all connections share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_outbox::ports::StoreError;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

use super::checkpoints::{self, Checkpoints};
use super::group_sync::GroupSync;
use super::storage::Storage;

/// State of the file that all connections share.
pub(super) struct Upkeep {
    pub(super) checkpoints: Checkpoints,
    pub(super) storage: Storage,
    pub(super) sync: Arc<GroupSync>,
    /// Whether the log of this process begins with a mark.
    pub(super) marked: AtomicBool,
}

impl Upkeep {
    pub(super) fn new(database: &Path, log: &Path, has_marks: bool) -> Upkeep {
        let storage = Storage::new(database, log);
        let opened = storage.opened_log();
        Upkeep {
            checkpoints: Checkpoints::new(log.to_owned(), has_marks),
            storage,
            sync: GroupSync::new(move || opened.sync()),
            marked: AtomicBool::new(false),
        }
    }

    /// Fails if a commit could be lost: the file was replaced, or its log cannot be flushed.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.storage.check()?;
        self.sync.check().map_err(|why| self.storage.unflushed(&why))
    }

    /// Begins an empty log with a mark, if the file has marks. A failure is not reported: the caller's own write meets the same cause.
    pub(super) async fn mark_empty_log(&self, writer: &mut PoolConnection<Sqlite>) {
        if !self.checkpoints.has_marks || self.marked.load(Ordering::Acquire) {
            return;
        }
        if self.checkpoints.log_is_empty()
            && let Err(error) = checkpoints::mark(writer).await
        {
            tracing::debug!(%error, "sqlite: cannot mark the write-ahead log");
            return;
        }
        self.marked.store(true, Ordering::Release);
    }
}
