//! Time and randomness.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// The clock of a deployment. In production it follows the database clock.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Current time with microsecond precision.
    fn now(&self) -> DateTime<Utc>;

    /// Waits for this duration. A simulated clock decides when the wait ends.
    async fn sleep(&self, duration: Duration);
}

/// Source of random numbers: jitter and the random part of event ids.
pub trait RandomSource: Send + Sync {
    /// Next random number, uniform over all `u64` values.
    fn next(&self) -> u64;
}
