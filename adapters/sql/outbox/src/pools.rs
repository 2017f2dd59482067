//! Metrics of the connection pools.

use handover_outbox::Metric;
use sqlx::{Database, Pool};
use tokio::time::Instant;

const CONNECTIONS: Metric = Metric::gauge(
    "handover.pool.connections",
    "Open connections to the database by state: used, idle. The pools of SQLite are writer and readers, that of a server is \
     server",
)
.by(&["pool", "state"]);
const MAX_CONNECTIONS: Metric =
    Metric::gauge("handover.pool.connections.max", "Maximum number of connections of the pool").by(&["pool"]);
const WAIT: Metric = Metric::histogram(
    "handover.pool.wait.seconds",
    "Time for which a request for a connection waited, including the opening of a new one and requests that timed out",
)
.by(&["pool"]);

/// The metrics of the connection pools.
pub const METRICS: &[Metric] = &[CONNECTIONS, MAX_CONNECTIONS, WAIT];

/// Name of the single pool of a server.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SERVER: &str = "server";

/// Waits for a connection of this pool and records the time.
pub(crate) async fn wait_for<T>(pool: &'static str, acquired: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let acquired = acquired.await;
    metrics::histogram!(WAIT.name, "pool" => pool).record(begun.elapsed().as_secs_f64());
    acquired
}

/// Sets the gauges of a pool.
pub(crate) fn report<DB: Database>(name: &'static str, pool: &Pool<DB>) {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    // The two numbers are read one after the other.
    let used = pool.size().saturating_sub(idle);
    metrics::gauge!(CONNECTIONS.name, "pool" => name, "state" => "used").set(f64::from(used));
    metrics::gauge!(CONNECTIONS.name, "pool" => name, "state" => "idle").set(f64::from(idle));
    let max = pool.options().get_max_connections();
    metrics::gauge!(MAX_CONNECTIONS.name, "pool" => name).set(f64::from(max));
}
