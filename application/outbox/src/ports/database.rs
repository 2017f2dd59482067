//! The health of the database server, apart from the rows of the outbox.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;

/// What a database shows about its health. `None`: the engine does not have it, or does not show it to this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatabaseHealth {
    /// Time for which the oldest transaction has been open; zero if none is open.
    pub oldest_transaction: Option<Duration>,
    /// Dead row versions of the outbox's tables that are not yet removed.
    pub dead_rows: Option<u64>,
    /// Length of the history list: transactions whose old row versions are not yet removed.
    pub history_length: Option<u64>,
}

/// Reads the health of a database.
#[async_trait]
pub trait DatabaseMonitor: Send + Sync + 'static {
    /// Reads the current health. It MUST include the transactions of other processes, prepared ones too, and MUST NOT include
    /// the read itself. A missing right MUST NOT be an error.
    async fn health(&self) -> Result<DatabaseHealth, StoreError>;
}
