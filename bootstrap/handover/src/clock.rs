//! The clock of an outbox.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_outbox::ports::{Clock, StoreError};
use handover_sql::SqlStore;
use handover_system::FollowingClock;

/// The clock of an outbox: that of the database server, unless a test gives another one.
#[derive(Clone)]
pub(crate) struct OutboxClock {
    clock: Arc<dyn Clock>,
    /// The same clock, if it follows that of the database server.
    following: Option<Arc<FollowingClock>>,
}

impl Default for OutboxClock {
    fn default() -> OutboxClock {
        let following = Arc::<FollowingClock>::default();
        OutboxClock { clock: Arc::<FollowingClock>::clone(&following), following: Some(following) }
    }
}

#[cfg(feature = "test")]
impl From<crate::test::ManualClock> for OutboxClock {
    fn from(clock: crate::test::ManualClock) -> OutboxClock {
        OutboxClock { clock: Arc::new(clock), following: None }
    }
}

impl OutboxClock {
    pub(crate) fn port(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Whether time passes by itself.
    #[cfg(feature = "test")]
    pub(crate) fn is_running(&self) -> bool {
        self.following.is_some()
    }

    /// Adjusts a clock that follows the database server.
    pub(crate) async fn sample(&self, store: &SqlStore) -> Result<(), StoreError> {
        match &self.following {
            Some(following) => following.sample(store.database_now()).await,
            None => Ok(()),
        }
    }

    /// Adjusts a clock that follows the database server from time to time. Returns at once if the clock does not.
    pub(crate) async fn keep_following(&self, store: &SqlStore) {
        if let Some(following) = &self.following {
            following.keep_following(|| store.database_now()).await;
        }
    }
}
