//! The one clock of a deployment.
//!
//! **Invariant:** what it tells is cut to microseconds, the finest that every engine stores; a time that was written
//! equals the one that is read back.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, Utc};
use handover_application::ports::Clock;

/// The clock of this machine. With SQLite the database runs in this process, so its clock is the database's clock.
///
/// A database server has a clock of its own. What follows it adds the offset it has sampled in [`Clock::now`]; nobody
/// else has to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the Clock port's one production implementation")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the Clock port's one production implementation")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_cut_to_microseconds() {
        for _ in 0..1000 {
            let now = SystemClock.now();
            assert_eq!(now.timestamp_subsec_nanos() % 1000, 0, "{now}");
        }
    }

    #[tokio::test]
    async fn a_sleep_is_never_shorter_than_asked() {
        let before = SystemClock.now();
        SystemClock.sleep(Duration::from_millis(20)).await;
        assert!(SystemClock.now() - before >= chrono::TimeDelta::milliseconds(19));
    }
}
