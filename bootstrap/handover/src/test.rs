//! Helpers for tests of a service, with the feature `test`.
//!
//! They wait for states, not for times: at most 30 seconds, so that a test on a busy machine does not fail.
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
//! running.drain().await?; // every event is published and applied, or a dead letter
//! let lent: Vec<Event<BookLent>> = running.enqueued().await?;
//! assert_eq!(lent.len(), 1);
//! running.deliver_again(lent[0].event_id()).await?; // a duplicate: nothing may change
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use handover_events::{ConsumeStatus, EventId, EventType, OutboxStatus};
use handover_outbox::consumers::{Event as StoredEvent, HandlerError};
use handover_outbox::ports::{BrokerError, Consumed, OutboxFilter, OutboxRow, Redrive, StoreError};

use crate::event::Event;
use crate::running::Running;

/// Pause between two looks at a state.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of looks until a state counts as not reached.
const LOOKS: u32 = 6_000;
/// Maximum number of events that a test may have.
const MAX_EVENTS: u32 = 10_000;

/// Reason why a state was not observed.
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
    /// The state was not reached in time.
    #[error("not within 30 seconds: {0}")]
    TimedOut(String),
}

impl<DB> Running<DB> {
    /// The committed events of a type, in the order of their commits.
    pub async fn enqueued<E: EventType>(&self) -> Result<Vec<Event<E>>, TestError> {
        let filter = OutboxFilter { event_type: Some(E::NAME.to_owned()), ..OutboxFilter::default() };
        let rows = self.rows(&filter).await?;
        rows.iter().map(|row| Ok(Event::of(&StoredEvent::of(row)?)?)).collect()
    }

    /// Waits until every committed event is published, and applied or a dead letter at each of its consumers in this
    /// process. An event that cannot be published ends the waiting, too.
    pub async fn drain(&self) -> Result<(), TestError> {
        self.until("every event is published and applied", async || {
            let rows = self.rows(&OutboxFilter::default()).await?;
            let is_pending = |row: &OutboxRow| matches!(row.status, OutboxStatus::New | OutboxStatus::Retry);
            let ids: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
            let consumed = self.consumed(&ids).await?;
            let is_settled = |row: &OutboxRow, consumer: &str| {
                let record =
                    consumed.iter().find(|it| it.event_id == row.event_id && it.consumer == consumer);
                record.is_some_and(|it| it.record.status.is_settled())
            };
            let waits = |row: &OutboxRow| {
                let consumers = self.services().consumers().iter();
                row.status == OutboxStatus::Sent
                    && consumers
                        .filter(|consumer| consumer.event_types.contains(&row.event_type))
                        .any(|consumer| !is_settled(row, &consumer.consumer))
            };
            Ok(!rows.iter().any(|row| is_pending(row) || waits(row)))
        })
        .await
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
    /// processed the duplicate.
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
