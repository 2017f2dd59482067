//! Time and chance.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// The one clock of a deployment: in production it follows the database's (spec §1 "time").
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now, to the microsecond.
    fn now(&self) -> DateTime<Utc>;

    /// Waits. A simulated clock decides for itself when that is over.
    async fn sleep(&self, duration: Duration);
}

/// Where unpredictable numbers come from: jitter and the random part of event ids.
pub trait Chance: Send + Sync {
    /// The next number, any of 2^64.
    fn next(&self) -> u64;
}
