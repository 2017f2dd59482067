//! Statement durations: one tracing event per statement, with target [`TARGET`] and the fields `sql` and `micros`.
//!
//! Without a subscriber for the target, as in production, the cost is one check of a flag per statement.

use tokio::time::Instant;
use tracing::Level;

/// Tracing target of the statement events (level TRACE; fields `sql` and `micros`).
pub const TARGET: &str = "handover_sql::statement";

pub(crate) struct Timed(Option<Instant>);

impl Timed {
    pub(crate) fn start() -> Timed {
        Timed(tracing::enabled!(target: TARGET, Level::TRACE).then(Instant::now))
    }

    /// Emits the event with the duration.
    pub(crate) fn end(self, sql: &str) {
        if let Some(started) = self.0 {
            let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            tracing::trace!(target: TARGET, sql, micros);
        }
    }
}
