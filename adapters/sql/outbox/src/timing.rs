//! How long statements take, for whoever listens: an event of the target [`TARGET`] each, with `sql` and `micros`.
//!
//! Nobody listens in a service that serves: then a statement costs no more than a look at one flag.

use tokio::time::Instant;
use tracing::Level;

/// The target of the events.
pub const TARGET: &str = "handover_sql::statement";

/// A statement that runs.
pub(crate) struct Timed(Option<Instant>);

impl Timed {
    /// From now on.
    pub(crate) fn start() -> Timed {
        Timed(tracing::enabled!(target: TARGET, Level::TRACE).then(Instant::now))
    }

    /// It has ended.
    pub(crate) fn end(self, sql: &str) {
        if let Some(begun) = self.0 {
            let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            tracing::trace!(target: TARGET, sql, micros);
        }
    }
}
