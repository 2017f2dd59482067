//! A clock that a test advances.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use tokio::sync::watch;

/// A clock that stands still until a test advances it, for [`Builder::clock`](crate::Builder::clock). Clones share the time.
///
/// Events for later and the next attempts of failed events are due by this clock, so that no test waits for them. Pauses that
/// nobody sees, such as those of the relay between two looks at the outbox, also end in real time.
///
/// ```
/// use std::time::Duration;
/// use chrono::TimeDelta;
/// use handover::test::{ManualClock, TestDatabase};
/// use handover::{Event, Outbox, at_least_once};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.overdue", aggregate = "book")]
/// # struct BookOverdue { #[event(key)] book: i64 }
/// # async fn remind(_: Event<BookOverdue>) -> handover::Result { Ok(()) }
/// use sqlx::Sqlite;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = TestDatabase::<Sqlite>::create().await?;
/// let clock = ManualClock::default();
/// let outbox = Outbox::builder(database.pool().clone())
///     .clock(&clock)
///     .consumer("reminders", at_least_once(remind))
///     .build()?;
/// outbox.migrate().await?;
/// let running = outbox.start().await?;
///
/// let mut tx = database.pool().begin().await?;
/// outbox.enqueue_at(&mut tx, BookOverdue { book: 1 }, clock.now() + TimeDelta::weeks(2)).await?;
/// tx.commit().await?;
/// running.drain().await?; // the event is not due
/// clock.advance(Duration::from_secs(14 * 24 * 60 * 60));
/// running.drain().await?; // the event is published and applied
/// # running.stop(Duration::from_secs(10)).await?;
/// # database.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    time: watch::Sender<DateTime<Utc>>,
}

impl ManualClock {
    /// A clock that shows this time, with microseconds.
    pub fn new(start: DateTime<Utc>) -> ManualClock {
        ManualClock { time: watch::Sender::new(start.trunc_subsecs(6)) }
    }

    /// The time that the clock shows.
    pub fn now(&self) -> DateTime<Utc> {
        *self.time.borrow()
    }

    /// Advances the time. Call it while no handler runs, for instance after [`Running::drain`](crate::Running::drain): an
    /// attempt that takes longer than its lease by this clock may be repeated.
    pub fn advance(&self, by: Duration) {
        self.time.send_modify(|time| *time = later(*time, by));
    }
}

/// A clock that shows the current time of this machine.
impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new(SystemClock.now())
    }
}

/// The time this much later; the same time if there is none.
fn later(time: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    let by = TimeDelta::from_std(by).ok();
    by.and_then(|by| time.checked_add_signed(by)).unwrap_or(time).trunc_subsecs(6)
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        ManualClock::now(self)
    }

    /// Ends when the clock has been advanced by this duration, and also after it in real time: otherwise no task of the
    /// outbox would look at the database again.
    async fn sleep(&self, duration: Duration) {
        let mut time = self.time.subscribe();
        let end = later(self.now(), duration);
        tokio::select! {
            () = SystemClock.sleep(duration) => {}
            // The sender is not dropped: `self` has it.
            _ = time.wait_for(|time| *time >= end) => {}
        }
    }
}
