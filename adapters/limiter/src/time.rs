//! The time that buckets fill by.

use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use tokio::time::Instant;

/// A time that only goes forward, since whatever moment.
#[derive(Clone)]
pub struct Time(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Time {
    /// The monotonic clock of the process; in a test whose time is paused, that one's.
    pub fn monotonic() -> Time {
        let began = Instant::now();
        Time::told_by(move || began.elapsed())
    }

    /// Somebody else's. It MUST NOT go back.
    pub fn told_by(now: impl Fn() -> Duration + Send + Sync + 'static) -> Time {
        Time(Arc::new(now))
    }

    fn now(&self) -> Duration {
        (self.0)()
    }
}

/// Time since a moment.
#[derive(Clone)]
pub(crate) struct Since {
    time: Time,
    began: Duration,
}

impl Since {
    /// Since now.
    pub(crate) fn now(time: &Time) -> Since {
        Since { time: time.clone(), began: time.now() }
    }
}

impl Clock for Since {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.time.now().saturating_sub(self.began)
    }
}
