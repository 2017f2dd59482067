//! Adapters by their public API: what is specific to one of them and in no contract of a port.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on ends there; an adapter works in real time"
)]

mod gateway;
mod limiter;
mod memory;
mod otlp;
mod redis;
mod sql;
mod system;

use std::time::Duration;

/// How long a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it does not happen");
}
