//! The clock from which the refill of buckets is computed.

use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use tokio::time::Instant;

/// Monotonic time since an arbitrary start.
#[derive(Clone)]
pub struct Time(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Time {
    /// Returns the monotonic clock of the process. It follows Tokio's paused time in tests.
    pub fn monotonic() -> Time {
        let start = Instant::now();
        Time::from_fn(move || start.elapsed())
    }

    /// Creates a clock from a function that returns the time since an arbitrary start. This time MUST NOT go back.
    pub fn from_fn(now: impl Fn() -> Duration + Send + Sync + 'static) -> Time {
        Time(Arc::new(now))
    }

    fn now(&self) -> Duration {
        (self.0)()
    }
}

/// A clock that returns the time elapsed since its creation.
#[derive(Clone)]
pub(crate) struct Since {
    time: Time,
    start: Duration,
}

impl Since {
    /// Creates a clock that starts at 0 now and follows `time`.
    pub(crate) fn now(time: &Time) -> Since {
        Since { time: time.clone(), start: time.now() }
    }
}

impl Clock for Since {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.time.now().saturating_sub(self.start)
    }
}
