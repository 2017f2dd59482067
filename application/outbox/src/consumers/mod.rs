//! Consumers: apply each event exactly once, in the order of its aggregate, or park it where a person sees it.
//!
//! Adding one: a [`Handler`] in a [`Subscriber`], its queue in the topology.
//!
//! **Invariant:** the consume-log row and the handler's own writes are one transaction, committed before the ack.

mod alone;
mod answered;
mod attempt;
mod bound;
mod consumer;
mod dead_letters;
mod gate;
mod group;
mod inbox;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::Envelope;
use serde::de::DeserializeOwned;

use crate::ports::{OutboxRow, StoreError};
use crate::relay::envelope_of;

pub(crate) use answered::answered;
pub use bound::Bound;
pub use consumer::Consumer;
pub(crate) use consumer::subscribe;
pub use dead_letters::DeadLetterDrainer;
pub(crate) use dead_letters::given_up;
pub use dead_letters::{to_be_tried, written_down};

/// An event as a handler gets it: the outbox row and its payload.
#[derive(Debug, Clone)]
pub struct Event {
    /// The row. The truth about the event.
    pub row: OutboxRow,
    /// Its envelope, parsed once: made from the row, or from a message that says the same as the row.
    pub envelope: Arc<Envelope>,
}

impl Event {
    /// The event of a row. A row whose payload is no JSON object is unrecoverable.
    pub fn of(row: &OutboxRow) -> Result<Event, HandlerError> {
        let envelope = envelope_of(row).map_err(HandlerError::Unrecoverable)?;
        Ok(Event { row: row.clone(), envelope: Arc::new(envelope) })
    }

    /// The payload as a type of the handler's own; one that does not fit is unrecoverable.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        serde_json::from_str(&self.row.payload).map_err(|error| {
            HandlerError::Unrecoverable(format!(
                "the payload of {} does not fit: {error}",
                self.row.event_type
            ))
        })
    }
}

/// What a handler did with one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// In a word, for the consume log.
    pub result: Option<String>,
    /// The key under which the effect is idempotent, if it has one.
    pub idempotency_key: Option<String>,
    /// Whether an earlier event of the same business fact had the effect already, so that this one had none.
    pub is_repeated: bool,
}

impl Applied {
    /// With this result.
    pub fn result(text: impl Into<String>) -> Applied {
        Applied { result: Some(text.into()), ..Applied::default() }
    }
}

/// The result of an event whose fact had its effect before.
pub const ALREADY_APPLIED: &str = "already applied";

/// Why a handler did not apply an event.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// Another attempt may succeed.
    #[error("{0}")]
    Recoverable(String),
    /// No attempt ever will (000 §9.3).
    #[error("{0}")]
    Unrecoverable(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a consumer does. Runs inside the unit of work, of type `U`, that also records the event as consumed.
#[async_trait]
pub trait Handler<U: ?Sized>: Send + Sync + 'static {
    /// The consumer's name in the consume log and the logs.
    fn name(&self) -> &'static str;

    /// The types it takes; events of other types on its queue are unrecoverable.
    fn takes(&self) -> &'static [&'static str];

    /// How long its events are on their way on purpose (a delay queue), before they can count as lost.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Applies the events in the order given and says for each what it did. All or nothing: after an error the unit is
    /// rolled back. MUST NOT wait for anything but the unit.
    ///
    /// An event may come after later ones of its aggregate when it was replayed from FAILED or the dead letters; it must
    /// then commute with them, or do nothing.
    async fn apply(&self, unit: &mut U, events: &[Event]) -> Result<Vec<Applied>, HandlerError>;
}

/// A handler and the queue it works on.
pub struct Subscriber<U: ?Sized> {
    /// The queue.
    pub queue: &'static str,
    /// The handler.
    pub handler: Arc<dyn Handler<U>>,
}

// Derived, it would ask the same of `U`.
impl<U: ?Sized> Clone for Subscriber<U> {
    fn clone(&self) -> Self {
        Subscriber { queue: self.queue, handler: Arc::clone(&self.handler) }
    }
}
