//! Production clocks.
//!
//! **Invariant:** times are truncated to microseconds, the finest precision that every engine stores, so that a stored
//! time equals the one read back.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use handover_outbox::ports::Clock;
use tokio::time::Instant;

/// The clock of this machine. SQLite runs in this process, so with SQLite this is also the clock of the database.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "production implementation of the Clock port")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }

    #[allow(clippy::disallowed_methods, reason = "production implementation of the Clock port")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Interval at which the offset of the clock is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// A clock that follows the database server: the time of this machine at the start, the time that has passed since then, and
/// a sampled offset.
///
/// **Invariant:** a step of this machine's clock moves it neither forward nor back. Until the next sample, deadlines would be reached
/// and leases of others would end too early.
#[derive(Debug)]
pub struct FollowingClock {
    started: Instant,
    started_at: DateTime<Utc>,
    offset_us: AtomicI64,
}

impl Default for FollowingClock {
    fn default() -> FollowingClock {
        FollowingClock {
            started: Instant::now(),
            started_at: SystemClock.now(),
            offset_us: AtomicI64::default(),
        }
    }
}

impl FollowingClock {
    /// The time of this machine at the start plus the time that has passed.
    fn steady(&self) -> DateTime<Utc> {
        let passed = TimeDelta::from_std(self.started.elapsed()).unwrap_or(TimeDelta::MAX);
        self.started_at.checked_add_signed(passed).unwrap_or(DateTime::<Utc>::MAX_UTC).trunc_subsecs(6)
    }

    /// Processes a sample: the server returned `theirs` for a query that was sent at `sent_at` and whose response
    /// arrived at `received_at`, both by this clock without its offset. If the current offset is outside the uncertainty of
    /// the sample, the offset is replaced and its change is returned; otherwise the clock is unchanged.
    pub fn follow(
        &self,
        sent_at: DateTime<Utc>,
        theirs: DateTime<Utc>,
        received_at: DateTime<Utc>,
    ) -> Option<TimeDelta> {
        let offset = self.offset();
        if (theirs - received_at..=theirs - sent_at).contains(&offset) {
            return None;
        }
        let sampled = theirs - (sent_at + (received_at - sent_at) / 2);
        self.offset_us.store(sampled.num_microseconds().unwrap_or_default(), Ordering::Relaxed);
        Some(sampled - offset)
    }

    /// Adjusts the offset to the database, whose current time this future reads.
    pub async fn sample<E>(
        &self,
        database_now: impl Future<Output = Result<DateTime<Utc>, E>>,
    ) -> Result<(), E> {
        let before = self.steady();
        let theirs = database_now.await?;
        if let Some(moved) = self.follow(before, theirs, self.steady()) {
            tracing::info!(
                code = "clock.adjusted",
                by_ms = moved.num_milliseconds(),
                "clock: offset to the database adjusted"
            );
        }
        Ok(())
    }

    /// Samples the time of the database every 10 s.
    pub async fn keep_following<E, F>(&self, database_now: impl Fn() -> F)
    where
        E: fmt::Display,
        F: Future<Output = Result<DateTime<Utc>, E>>,
    {
        loop {
            self.sleep(SAMPLE_INTERVAL).await;
            if let Err(error) = self.sample(database_now()).await {
                tracing::debug!(%error, "clock: cannot read the time of the database; keeping the last offset");
            }
        }
    }

    fn offset(&self) -> TimeDelta {
        TimeDelta::microseconds(self.offset_us.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Clock for FollowingClock {
    fn now(&self) -> DateTime<Utc> {
        self.steady() + self.offset()
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}
