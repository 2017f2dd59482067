//! Application code of a consumer, and the events that it applies.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::Envelope;
use serde::de::DeserializeOwned;

use crate::error_kind::ErrorKind;
use crate::message::envelope_of;
use crate::ports::{OutboxRow, StoreError};

/// An event passed to a handler: outbox row and envelope.
#[derive(Debug, Clone)]
pub struct Event {
    /// The outbox row; it is authoritative.
    pub row: OutboxRow,
    /// Envelope of the event: built from the row, or parsed from a message with the same content.
    pub envelope: Arc<Envelope>,
}

impl Event {
    /// Builds the event of a row. A payload that is not a JSON object is an unrecoverable error.
    pub fn of(row: &OutboxRow) -> Result<Event, HandlerError> {
        let envelope = envelope_of(row).map_err(HandlerError::Unrecoverable)?;
        Ok(Event { row: row.clone(), envelope: Arc::new(envelope) })
    }

    /// Deserializes the payload. A payload that does not have the structure of `T` is an unrecoverable error.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        serde_json::from_str(&self.row.payload).map_err(|error| {
            HandlerError::Unrecoverable(format!("invalid payload of {}: {error}", self.row.event_type))
        })
    }
}

/// Result of a handler for one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Short description for the consume log.
    pub result: Option<String>,
    /// Idempotency key of the effect, if it has one.
    pub idempotency_key: Option<String>,
    /// Whether an earlier event about the same business fact already had the effect, so that this event had none.
    pub is_repeated: bool,
}

impl Applied {
    /// Creates a result with this description.
    pub fn result(text: impl Into<String>) -> Applied {
        Applied { result: Some(text.into()), ..Applied::default() }
    }
}

/// Description used when the business fact already had its effect.
pub const ALREADY_APPLIED: &str = "already applied";

/// Reason why a handler did not apply an event.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// Another attempt may succeed.
    #[error("{0}")]
    Recoverable(String),
    /// No attempt can succeed.
    #[error("{0}")]
    Unrecoverable(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HandlerError {
    /// The kind of this error, for the breaker of a consumer.
    pub fn kind(&self) -> ErrorKind {
        match self {
            HandlerError::Recoverable(why) | HandlerError::Unrecoverable(why) => ErrorKind::of(why),
            HandlerError::Store(error) => error.kind(),
        }
    }
}

/// Application code of a consumer. It runs in the unit of work (of type `U`) that also records the events as applied.
#[async_trait]
pub trait Handler<U: ?Sized>: Send + Sync + 'static {
    /// Name of the consumer in the consume log and in log messages.
    fn name(&self) -> &str;

    /// Event types that the handler applies. Events of other types in its queue are left to the process that has
    /// registered them for the consumer, if there is one; otherwise they fail as unrecoverable.
    fn event_types(&self) -> Vec<&str>;

    /// Intended delivery delay of the events, if they pass through a delay queue. The delay is added to the time after
    /// which an event counts as lost.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Applies the events in the order given and returns one result per event. After an error the unit of work is
    /// rolled back. MUST NOT wait for anything except the unit of work.
    ///
    /// An event may arrive after later events of its aggregate if it was redriven or replayed. Its effect must then
    /// commute with theirs, or be empty.
    async fn apply(&self, unit: &mut U, events: &[Event]) -> Result<Vec<Applied>, HandlerError>;
}

/// A handler and its queue.
pub struct Subscriber<U: ?Sized> {
    /// Name of the queue.
    pub queue: Cow<'static, str>,
    /// Handler of the events.
    pub handler: Arc<dyn Handler<U>>,
}

// `derive(Clone)` would also require `U: Clone`.
impl<U: ?Sized> Clone for Subscriber<U> {
    fn clone(&self) -> Self {
        Subscriber { queue: self.queue.clone(), handler: Arc::clone(&self.handler) }
    }
}
