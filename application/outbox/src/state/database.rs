//! Health of the database server as state metrics.

use std::sync::Arc;

use async_trait::async_trait;

use super::sample::{Sample, StateSource};
use crate::metrics::{Metric, count};
use crate::ports::{DatabaseMonitor, StoreError};

pub(super) const OLDEST_TRANSACTION: Metric = Metric::state(
    "handover.database.oldest.transaction.seconds",
    "Time for which the oldest transaction that the database user may see has been open, in seconds; 0: none. Absent on SQLite, \
     and on MySQL and MariaDB without the privilege PROCESS; on PostgreSQL transactions of other users need pg_read_all_stats",
);
pub(super) const DEAD_ROWS: Metric = Metric::state(
    "handover.database.dead.rows",
    "Dead row versions of the tables of the outbox that VACUUM has not removed yet; only on PostgreSQL",
);
pub(super) const HISTORY_LENGTH: Metric = Metric::state(
    "handover.database.history.length",
    "History list length of InnoDB: transactions whose old row versions are not purged yet; only on MySQL and MariaDB, with the \
     privilege PROCESS",
);

/// Health of the database server.
pub struct DatabaseState(Arc<dyn DatabaseMonitor>);

impl DatabaseState {
    /// Reads the health from this monitor.
    pub fn new(monitor: Arc<dyn DatabaseMonitor>) -> DatabaseState {
        DatabaseState(monitor)
    }
}

#[async_trait]
impl StateSource for DatabaseState {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        let health = self.0.health().await?;
        let oldest = health.oldest_transaction.map(|open| OLDEST_TRANSACTION.sample([], open.as_secs_f64()));
        let dead_rows = health.dead_rows.map(|rows| DEAD_ROWS.sample([], count(rows)));
        let history = health.history_length.map(|length| HISTORY_LENGTH.sample([], count(length)));
        Ok([oldest, dead_rows, history].into_iter().flatten().collect())
    }
}
