//! Clocks controlled by tests.
//!
//! **Invariant:** setting the wall clock never ends a sleep; only elapsed time does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use handover_outbox::ports::Clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Adds a difference to a time; returns the time unchanged on overflow.
pub(crate) fn moved(from: DateTime<Utc>, by: TimeDelta) -> DateTime<Utc> {
    from.checked_add_signed(by).unwrap_or(from)
}

/// Adds a duration to a time; returns the time unchanged on overflow.
pub(crate) fn later(from: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).map_or(from, |by| moved(from, by))
}

/// A clock that advances only when a test advances it. Clones share the same time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    state: Arc<Mutex<Manual>>,
}

#[derive(Debug)]
struct Manual {
    now: DateTime<Utc>,
    elapsed: Duration,
    pending_sleeps: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    next_sleeper: u64,
}

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn new(start: DateTime<Utc>) -> ManualClock {
        let manual = Manual {
            now: start.trunc_subsecs(6),
            elapsed: Duration::ZERO,
            pending_sleeps: BTreeMap::new(),
            next_sleeper: 0,
        };
        ManualClock { state: Arc::new(Mutex::new(manual)) }
    }

    /// Advances the time and completes the sleeps that are due, in the order of their end, then of their start.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.elapsed += by;
        state.now = later(state.now, by).trunc_subsecs(6);
        let elapsed = state.elapsed;
        while let Some(first) = state.pending_sleeps.first_entry()
            && first.key().0 <= elapsed
        {
            // An error is ignored: the sleeping future, which owns the receiver, may have been dropped.
            let _ = first.remove().send(());
        }
    }

    /// Sets the wall clock forward or back, as an administrator could. Pending sleeps do not end.
    pub fn set(&self, now: DateTime<Utc>) {
        self.state().now = now.trunc_subsecs(6);
    }

    /// Number of pending sleeps, so that a test can wait for one before [`ManualClock::advance`].
    pub fn pending_sleeps(&self) -> usize {
        self.state().pending_sleeps.values().filter(|sleeper| !sleeper.is_closed()).count()
    }

    fn state(&self) -> MutexGuard<'_, Manual> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.state().now
    }

    async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            let key = (state.elapsed.saturating_add(duration), state.next_sleeper);
            state.next_sleeper += 1;
            state.pending_sleeps.insert(key, sender);
        }
        // An error means that the clock was dropped, so its time no longer advances.
        let _ = receiver.await;
    }
}

/// A clock that follows the time of the Tokio runtime, which `tokio::time::pause` simulates. Clones share the skew.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    start: DateTime<Utc>,
    origin: Instant,
    skew_us: Arc<AtomicI64>,
}

impl VirtualClock {
    /// Creates a clock that shows `start` at the current time of the runtime.
    pub fn new(start: DateTime<Utc>) -> VirtualClock {
        VirtualClock { start, origin: Instant::now(), skew_us: Arc::default() }
    }

    /// Creates a clock with the same time and an independent skew, like that of another machine.
    pub fn with_own_skew(&self) -> VirtualClock {
        VirtualClock { skew_us: Arc::default(), ..self.clone() }
    }

    /// Sets the skew of the wall clock. It does not affect sleeps.
    pub fn set_skew(&self, skew: TimeDelta) {
        self.skew_us.store(skew.num_microseconds().unwrap_or(0), Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> DateTime<Utc> {
        let skew = TimeDelta::microseconds(self.skew_us.load(Ordering::Relaxed));
        moved(later(self.start, self.origin.elapsed()), skew).trunc_subsecs(6)
    }

    #[allow(clippy::disallowed_methods, reason = "implementation of the Clock port")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
