//! State of the database file that all connections share.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

use super::checkpoints::{self, Checkpoints};
use super::storage::Storage;

/// State of the file that all connections share.
pub(super) struct Upkeep {
    pub(super) checkpoints: Checkpoints,
    pub(super) storage: Storage,
    /// Whether the log of this process begins with a mark.
    pub(super) marked: AtomicBool,
}

impl Upkeep {
    /// Begins an empty log with a mark. A failure is not reported: the caller's own write meets the same cause.
    pub(super) async fn mark_empty_log(&self, writer: &mut PoolConnection<Sqlite>) {
        if self.marked.load(Ordering::Acquire) {
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
