//! The clock of one process, which may stop, be wrong or step.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_memory::VirtualClock;
use handover_outbox::ports::Clock;

/// A clock that can be stopped. Clones share the state.
#[derive(Clone)]
pub(crate) struct FaultyClock {
    inner: VirtualClock,
    stopped_at: Arc<Mutex<Option<DateTime<Utc>>>>,
}

impl FaultyClock {
    pub(crate) fn new(inner: VirtualClock) -> FaultyClock {
        FaultyClock { inner, stopped_at: Arc::default() }
    }

    pub(crate) fn set_skew(&self, millis: i64) {
        self.inner.set_skew(TimeDelta::milliseconds(millis));
    }

    /// Stops the clock at its current time, or continues it at the correct time.
    pub(crate) fn set_stopped(&self, is_stopped: bool) {
        let moment = is_stopped.then(|| self.inner.now());
        *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }

    /// Sets the correct time, as a time service does.
    pub(crate) fn heal(&self) {
        self.set_skew(0);
        self.set_stopped(false);
    }
}

#[async_trait]
impl Clock for FaultyClock {
    fn now(&self) -> DateTime<Utc> {
        let stopped_at = *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner);
        stopped_at.unwrap_or_else(|| self.inner.now())
    }

    /// Sleeps on the machine's monotonic clock, which runs even while this clock is stopped.
    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
}
