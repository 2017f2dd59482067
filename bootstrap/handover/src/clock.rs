//! The clock of an outbox.

use std::sync::Arc;
#[cfg(feature = "sqlx")]
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_outbox::Transactor;
use handover_outbox::ports::{Clock, StoreError};
use handover_system::FollowingClock;

/// The clock of an outbox: that of the database server, unless it is given another one.
#[derive(Clone)]
pub(crate) struct OutboxClock {
    clock: Arc<dyn Clock>,
    /// The same clock, if it follows that of the database server.
    following: Option<Arc<FollowingClock>>,
    /// Whether time passes by itself.
    #[cfg(feature = "test")]
    is_running: bool,
}

impl Default for OutboxClock {
    fn default() -> OutboxClock {
        let following = Arc::<FollowingClock>::default();
        let clock = Arc::<FollowingClock>::clone(&following);
        OutboxClock { following: Some(following), ..OutboxClock::of(clock) }
    }
}

#[cfg(feature = "test")]
impl From<crate::test::ManualClock> for OutboxClock {
    fn from(clock: crate::test::ManualClock) -> OutboxClock {
        OutboxClock { is_running: false, ..OutboxClock::of(Arc::new(clock)) }
    }
}

impl OutboxClock {
    /// A clock of the application.
    pub(crate) fn of(clock: Arc<dyn Clock>) -> OutboxClock {
        OutboxClock {
            clock,
            following: None,
            #[cfg(feature = "test")]
            is_running: true,
        }
    }

    pub(crate) fn port(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    #[cfg(feature = "sqlx")]
    pub(crate) async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Whether time passes by itself.
    #[cfg(feature = "test")]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Adjusts a clock that follows the database server.
    pub(crate) async fn sample(&self, tx: &Transactor) -> Result<(), StoreError> {
        match &self.following {
            Some(following) => following.sample(database_now(tx)).await,
            None => Ok(()),
        }
    }

    /// Adjusts a clock that follows the database server from time to time. Returns at once if the clock does not.
    pub(crate) async fn keep_following(&self, tx: &Transactor) {
        if let Some(following) = &self.following {
            following.keep_following(|| database_now(tx)).await;
        }
    }
}

async fn database_now(tx: &Transactor) -> Result<DateTime<Utc>, StoreError> {
    tx.view().await?.outbox_view().database_now().await
}
