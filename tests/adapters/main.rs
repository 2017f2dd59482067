//! Tests of adapters through their public API, for behaviour that no contract of a port covers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test may panic on failure; adapters run in real time"
)]

mod gateway;
mod limiter;
mod line_writer;
mod memory;
mod otlp;
mod redis;
mod sql;
mod system;
mod versions;

use std::sync::Once;
use std::time::Duration;

/// Time limit for an expected condition.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polling).await.expect("the condition was not met within the time limit");
}

/// Enables spans and events in all threads. `tracing` asks only the subscriber of the thread that first comes to a line if no
/// more than one subscriber exists: without this one, a test that records nothing could disable a line for one that does.
fn enable_tracing() {
    static ENABLED: Once = Once::new();
    ENABLED.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
}
