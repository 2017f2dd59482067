//! Helpers for tests of a service, with the feature `test`.
//!
//! - [`TestDatabase`]: a schema or a file for one test.
//! - [`ManualClock`]: a clock that the test advances.
//! - Methods of [`Running`]: [`drain`](Running::drain), [`assert_enqueued`](Running::assert_enqueued),
//!   [`deliver_again`](Running::deliver_again) and others. They wait for states, not for times: at most 30 seconds, so that a
//!   test on a busy machine does not fail. They read the newest 10,000 events of the database: a test with more of them needs a
//!   query of its own.
//!
//! ```no_run
//! # use handover::{Event, Outbox, Running};
//! # use serde::{Deserialize, Serialize};
//! # use sqlx::Sqlite;
//! # #[derive(Serialize, Deserialize, Event)]
//! # #[event(name = "book.lent", aggregate = "book")]
//! # struct BookLent { #[event(key)] book: i64 }
//! # async fn lend(_: &Outbox<Sqlite>) {}
//! # async fn test(outbox: Outbox<Sqlite>, running: Running<Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
//! lend(&outbox).await; // the code under test
//! running.assert_enqueued(&[BookLent { book: 1 }]).await;
//! running.drain().await?; // every event is published and applied, or a dead letter
//! let lent: Vec<Event<BookLent>> = running.enqueued().await?;
//! running.deliver_again(lent[0].event_id()).await?; // a duplicate: nothing may change
//! # Ok(())
//! # }
//! ```

mod clock;
#[cfg(feature = "sqlx")]
mod database;

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, EventId, EventType, OutboxStatus};
use handover_outbox::ConsumerQueue;
use handover_outbox::consumers::{Event as StoredEvent, HandlerError};
use handover_outbox::ports::{BrokerError, Consumed, OutboxFilter, OutboxRow, Redrive, StoreError};
use handover_system::EntropyError;
use serde_json::Value;

use crate::backend::Backend;
use crate::event::Event;
use crate::running::Running;

pub use clock::ManualClock;
#[cfg(feature = "sqlx")]
pub use database::TestDatabase;

/// Pause between two looks at a state.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of looks until a state counts as not reached.
const LOOKS: u32 = 6_000;
/// Number of events that a helper reads, newest first.
const MAX_EVENTS: u32 = 10_000;

/// Maximum number of events of other types that a failed assertion lists.
const MAX_OTHERS: usize = 20;

/// Reason why a state was not observed, or why a database for a test cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The database failed.
    #[error("the outbox cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The broker failed.
    #[error("the queues cannot be read: {0}")]
    Broker(#[from] BrokerError),
    /// An event does not have the payload of the type.
    #[error(transparent)]
    Payload(#[from] HandlerError),
    /// The id is that of no event.
    #[error("there is no event {0:?}")]
    NoEvent(String),
    /// The database of a test cannot be created or removed.
    #[cfg(feature = "sqlx")]
    #[error("the database of the test cannot be created or removed: {0}")]
    Database(#[from] sqlx::Error),
    /// The temporary folder of a test cannot be created or removed.
    #[error("the folder of the test cannot be created or removed: {0}")]
    Folder(#[from] std::io::Error),
    /// The operating system provides no random numbers, which the name of a database needs.
    #[error(transparent)]
    Random(#[from] EntropyError),
    /// The state was not reached in time.
    #[error("not within 30 seconds: {0}")]
    TimedOut(String),
}

impl<B: Backend> Running<B> {
    /// The committed events of a type, in the order of their commits: the newest 10,000 if there are more.
    pub async fn enqueued<E: EventType>(&self) -> Result<Vec<Event<E>>, TestError> {
        let filter = OutboxFilter { event_type: Some(E::NAME.to_owned()), ..OutboxFilter::default() };
        let rows = self.rows(&filter).await?;
        rows.iter().map(|row| Ok(Event::of(&StoredEvent::of(row)?)?)).collect()
    }

    /// Panics unless the committed events of this type have these payloads, in the order of their commits. The message lists
    /// what was enqueued instead, also of other types. Without payloads: unless no event of the type was enqueued.
    ///
    /// ```no_run
    /// # use handover::{Event, Running};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.returned", aggregate = "book")]
    /// # struct BookReturned { #[event(key)] book: i64 }
    /// # async fn test(running: handover::Running<sqlx::Sqlite>) {
    /// running.assert_enqueued(&[BookLent { book: 1, reader: "ann".to_owned() }]).await;
    /// running.assert_enqueued::<BookReturned>(&[]).await;
    /// # }
    /// ```
    #[track_caller]
    pub fn assert_enqueued<E: EventType>(&self, expected: &[E]) -> impl Future<Output = ()> + Send {
        let caller = Location::caller();
        async move {
            if let Err(why) = self.compare_enqueued(expected).await {
                panic!("assertion at {caller} failed: {why}");
            }
        }
    }

    /// The difference between the payloads and the committed events of their type.
    async fn compare_enqueued<E: EventType>(&self, expected: &[E]) -> Result<(), String> {
        let text = |event: &E| serde_json::to_string(event).map_err(|error| error.to_string());
        let expected = expected.iter().map(text).collect::<Result<Vec<String>, String>>()?;
        let rows = self.rows(&OutboxFilter::default()).await.map_err(|error| error.to_string())?;
        let (of_type, others): (Vec<&OutboxRow>, Vec<&OutboxRow>) =
            rows.iter().partition(|row| row.event_type == E::NAME);
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        let is_same = of_type.len() == expected.len()
            && of_type.iter().zip(&expected).all(|(row, text)| json(&row.payload) == json(text));
        if is_same {
            return Ok(());
        }
        let of_type = of_type.iter().map(|row| row.payload.clone());
        let listed = others.iter().take(MAX_OTHERS).map(|row| format!("{} {}", row.event_type, row.payload));
        let more = others.len().saturating_sub(MAX_OTHERS);
        Err(format!(
            "the enqueued events {:?} differ\n  expected:{}\n  enqueued:{}\n  other events:{}{}",
            E::NAME,
            list(expected),
            list(of_type),
            list(listed),
            if more == 0 { String::new() } else { format!("\n    and {more} more") }
        ))
    }

    /// Waits until every committed event is published, and applied or a dead letter at each of its consumers in this
    /// process. An event that cannot be published ends the waiting, too. Of more than 10,000 events it looks at the newest.
    ///
    /// With a [`ManualClock`], it does not wait for what is due later: events for later, failed events until their next
    /// attempt, and the events of the same aggregates that wait for them.
    pub async fn drain(&self) -> Result<(), TestError> {
        self.until("every event is published and applied", async || {
            let rows = self.rows(&OutboxFilter::default()).await?;
            let ids: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
            if !self.is_drained(rows, &self.consumed(&ids).await?) {
                return Ok(false);
            }
            // An event that a handler has enqueued is committed together with the record that was read after the rows.
            Ok(self.rows(&OutboxFilter::default()).await?.len() == ids.len())
        })
        .await
    }

    /// Whether nothing happens to these events before the time advances.
    fn is_drained(&self, mut rows: Vec<OutboxRow>, consumed: &[Consumed]) -> bool {
        let services = self.services();
        let still_at = if self.clock().is_running() { None } else { Some(services.now()) };
        let is_later = |due: Option<DateTime<Utc>>| due.zip(still_at).is_some_and(|(due, now)| due > now);
        rows.sort_by_key(|row| (row.aggregate_seq, row.id));
        // Aggregates whose next event is due later: at the relay, and at a consumer.
        let mut held_at_relay: BTreeSet<&AggregateRef> = BTreeSet::new();
        let mut held_at_consumer: BTreeSet<(&str, &AggregateRef)> = BTreeSet::new();
        for row in &rows {
            let is_ordered = services.registry.unordered().is_ordered(&row.event_type);
            // A redriven event, which was published before, holds no later one.
            let holds = is_ordered && row.sent_time.is_none();
            if matches!(row.status, OutboxStatus::New | OutboxStatus::Retry) {
                let is_held = is_ordered && held_at_relay.contains(&row.aggregate);
                if is_later(row.next_retry_time) {
                    held_at_relay.extend(holds.then_some(&row.aggregate));
                } else if !is_held {
                    return false;
                }
            }
            if row.status != OutboxStatus::Sent {
                continue;
            }
            let has_work = |it: &&ConsumerQueue| {
                it.event_types.contains(&row.event_type) && !row.idle_consumers.contains(&it.consumer)
            };
            for consumer in services.consumers().iter().filter(has_work) {
                let is_of = |it: &&Consumed| it.event_id == row.event_id && it.consumer == consumer.consumer;
                let Some(Consumed { record, .. }) = consumed.iter().find(is_of) else { return false };
                let key = (consumer.consumer.as_str(), &row.aggregate);
                match record.status {
                    ConsumeStatus::Success | ConsumeStatus::Dead => {}
                    ConsumeStatus::Failed if is_later(record.next_retry_time) => {
                        held_at_consumer.insert(key);
                    }
                    ConsumeStatus::Waiting if held_at_consumer.contains(&key) => {}
                    ConsumeStatus::Failed | ConsumeStatus::Waiting | ConsumeStatus::Processing => {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Waits until a consumer has recorded this state of an event.
    pub async fn wait_for(
        &self,
        event_id: &str,
        consumer: &str,
        state: ConsumeStatus,
    ) -> Result<(), TestError> {
        let ids = [self.known(event_id).await?];
        self.until(&format!("{consumer} has recorded {state} for {event_id}"), async || {
            let consumed = self.consumed(&ids).await?;
            Ok(consumed.iter().any(|it| it.consumer == consumer && it.record.status == state))
        })
        .await
    }

    /// Publishes an event again, as a broker or an operator may do at any time, and waits until its consumers have
    /// processed the duplicate. With a [`ManualClock`], no failed event may wait for its next attempt.
    pub async fn deliver_again(&self, event_id: &str) -> Result<(), TestError> {
        let event_id = self.known(event_id).await?;
        self.drain().await?;
        let now = self.services().now();
        let mut unit = self.services().tx.begin().await?;
        unit.outbox().redrive(&[Redrive { event_id, due: now }], now).await?;
        unit.commit().await?;
        self.drain().await?;
        self.until("the queues are empty", async || {
            let queues = self.services().broker.queues().await?;
            Ok(queues.iter().all(|queue| queue.ready + queue.unacked == 0))
        })
        .await
    }

    /// The id of an existing event.
    async fn known(&self, event_id: &str) -> Result<EventId, TestError> {
        let unknown = || TestError::NoEvent(event_id.to_owned());
        let id: EventId = event_id.parse().map_err(|_| unknown())?;
        let mut view = self.services().view().await?;
        let rows = view.outbox_view().outbox_by_event(std::slice::from_ref(&id)).await?;
        if rows.is_empty() { Err(unknown()) } else { Ok(id) }
    }

    /// The matching rows in the order of their commits.
    async fn rows(&self, filter: &OutboxFilter) -> Result<Vec<OutboxRow>, TestError> {
        let mut view = self.services().view().await?;
        let mut rows = view.outbox_view().outbox_page(filter, None, MAX_EVENTS).await?;
        rows.reverse();
        Ok(rows)
    }

    async fn consumed(&self, events: &[EventId]) -> Result<Vec<Consumed>, TestError> {
        let mut view = self.services().view().await?;
        Ok(view.outbox_view().consumed_of(events).await?)
    }

    async fn until(
        &self,
        what: &str,
        is_reached: impl AsyncFn() -> Result<bool, TestError>,
    ) -> Result<(), TestError> {
        for _ in 0..LOOKS {
            if is_reached().await? {
                return Ok(());
            }
            self.services().tx.sleep(PAUSE).await;
        }
        Err(TestError::TimedOut(what.to_owned()))
    }
}

/// One item per line, or `none`.
fn list(items: impl IntoIterator<Item = String>) -> String {
    let lines: String = items.into_iter().map(|item| format!("\n    {item}")).collect();
    if lines.is_empty() { " none".to_owned() } else { lines }
}
