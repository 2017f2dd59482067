//! Clocks that a test moves.
//!
//! **Invariant:** a step of the wall clock never ends a sleep; only time that passes does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use handover_outbox::ports::Clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A moment moved by a difference; stays where it is if the calendar ends before.
pub(crate) fn moved(from: DateTime<Utc>, by: TimeDelta) -> DateTime<Utc> {
    from.checked_add_signed(by).unwrap_or(from)
}

/// A moment that much later.
pub(crate) fn later(from: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).map_or(from, |by| moved(from, by))
}

/// A clock that stands until a test moves it. Clones share it.
#[derive(Debug, Clone)]
pub struct ManualClock {
    state: Arc<Mutex<Manual>>,
}

#[derive(Debug)]
struct Manual {
    now: DateTime<Utc>,
    passed: Duration,
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    next_sleeper: u64,
}

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: DateTime<Utc>) -> ManualClock {
        let manual = Manual {
            now: start.trunc_subsecs(6),
            passed: Duration::ZERO,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
        };
        ManualClock { state: Arc::new(Mutex::new(manual)) }
    }

    /// Lets time pass, and wakes those who have slept long enough: who was due first, then who slept first.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.passed += by;
        state.now = later(state.now, by).trunc_subsecs(6);
        let passed = state.passed;
        while let Some(first) = state.sleepers.first_entry()
            && first.key().0 <= passed
        {
            // Whoever stopped waiting does not care.
            let _ = first.remove().send(());
        }
    }

    /// Sets the wall clock, forward or back, as an administrator does: nobody's sleep ends.
    pub fn set(&self, now: DateTime<Utc>) {
        self.state().now = now.trunc_subsecs(6);
    }

    /// How many sleep now: tells a test that it is time to [`ManualClock::advance`].
    pub fn sleepers(&self) -> usize {
        self.state().sleepers.values().filter(|sleeper| !sleeper.is_closed()).count()
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
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state();
            let key = (state.passed.saturating_add(duration), state.next_sleeper);
            state.next_sleeper += 1;
            state.sleepers.insert(key, wake);
        }
        // An error would mean that the clock is gone, and with it its time.
        let _ = woken.await;
    }
}

/// A clock that follows the runtime's time, which `tokio::time::pause` makes a simulated one. Clones share the skew.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    start: DateTime<Utc>,
    origin: Instant,
    skew_us: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock that shows `start` at the runtime's present moment.
    pub fn new(start: DateTime<Utc>) -> VirtualClock {
        VirtualClock { start, origin: Instant::now(), skew_us: Arc::default() }
    }

    /// Another clock of the same time with a skew of its own, as another machine has.
    pub fn another(&self) -> VirtualClock {
        VirtualClock { skew_us: Arc::default(), ..self.clone() }
    }

    /// Sets by how much the wall clock is off; sleeps are not.
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

    #[allow(clippy::disallowed_methods, reason = "this is the Clock port's side of it")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
