//! The one clock of a deployment.
//!
//! **Invariant:** what it tells is cut to microseconds, the finest that every engine stores; a time that was written
//! equals the one that is read back.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use handover_outbox::ports::Clock;

/// The clock of this machine. With SQLite the database runs in this process, so its clock is the database's clock.
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

/// A clock that follows another machine's, the database server's: that of this machine, moved by what was sampled.
#[derive(Debug, Default)]
pub struct FollowingClock {
    offset_us: AtomicI64,
}

impl FollowingClock {
    /// The other clock said `theirs` at some moment between `asked` and `answered` of this machine. Where that cannot be
    /// reconciled with what is told so far, the clock is moved, and how far is told; within the uncertainty of a sample
    /// it stays as it is.
    pub fn follow(
        &self,
        asked: DateTime<Utc>,
        theirs: DateTime<Utc>,
        answered: DateTime<Utc>,
    ) -> Option<TimeDelta> {
        let offset = self.offset();
        if (theirs - answered..=theirs - asked).contains(&offset) {
            return None;
        }
        let sampled = theirs - (asked + (answered - asked) / 2);
        self.offset_us.store(sampled.num_microseconds().unwrap_or_default(), Ordering::Relaxed);
        Some(sampled - offset)
    }

    fn offset(&self) -> TimeDelta {
        TimeDelta::microseconds(self.offset_us.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Clock for FollowingClock {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.offset()
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}
