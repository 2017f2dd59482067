//! The clock of one process: it may stand, be off, or step.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_memory::VirtualClock;
use handover_outbox::ports::Clock;

/// A clock that can be stopped. Clones are the same clock.
#[derive(Clone)]
pub(crate) struct FaultyClock {
    inner: VirtualClock,
    stands: Arc<Mutex<Option<DateTime<Utc>>>>,
}

impl FaultyClock {
    pub(crate) fn new(inner: VirtualClock) -> FaultyClock {
        FaultyClock { inner, stands: Arc::default() }
    }

    pub(crate) fn set_skew(&self, millis: i64) {
        self.inner.set_skew(TimeDelta::milliseconds(millis));
    }

    /// It stands at what it shows now, or goes on with the right time.
    pub(crate) fn set_standing(&self, stands: bool) {
        let moment = stands.then(|| self.inner.now());
        *self.stands.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }

    /// Right again, as after a step of the time service.
    pub(crate) fn heal(&self) {
        self.set_skew(0);
        self.set_standing(false);
    }
}

#[async_trait]
impl Clock for FaultyClock {
    fn now(&self) -> DateTime<Utc> {
        let stands = *self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        stands.unwrap_or_else(|| self.inner.now())
    }

    /// Sleeping is by the machine's monotonic clock, which does go on.
    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
}
