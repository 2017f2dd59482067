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
use crate::settings::OwnSettings;

/// An event passed to a handler: outbox row and envelope.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The outbox row; it is authoritative.
    pub row: OutboxRow,
    /// Envelope of the event: built from the row, or parsed from a message with the same content.
    pub envelope: Arc<Envelope>,
    /// Number of the attempt, from 1. An attempt that is not counted has the same number as the next one: that of a group
    /// which fails, and one that an outage ends.
    pub attempt: u32,
    /// W3C trace context in which the event was published, from its message; `None` if it has no message with one.
    pub published: Option<String>,
}

impl Event {
    /// Builds the event of a row, for its first attempt. A payload that is not a JSON object is an unrecoverable error.
    pub fn of(row: &OutboxRow) -> Result<Event, HandlerError> {
        let envelope = envelope_of(row).map_err(HandlerError::Unrecoverable)?;
        Ok(Event { row: row.clone(), envelope: Arc::new(envelope), attempt: 1, published: None })
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
#[non_exhaustive]
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

    /// Sets the idempotency key of the effect.
    #[must_use]
    pub fn with_key(self, idempotency_key: impl Into<String>) -> Applied {
        Applied { idempotency_key: Some(idempotency_key.into()), ..self }
    }

    /// Marks the event as one whose effect already existed.
    #[must_use]
    pub fn repeated(self) -> Applied {
        Applied { is_repeated: true, ..self }
    }
}

impl From<()> for Applied {
    fn from((): ()) -> Applied {
        Applied::default()
    }
}

impl From<String> for Applied {
    fn from(result: String) -> Applied {
        Applied::result(result)
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
    /// rolled back. MUST NOT wait for anything except the unit of work: a call to another system belongs in an
    /// [`ExternalHandler`].
    ///
    /// An event may arrive after later events of its aggregate if it was redriven or replayed. Its effect must then
    /// commute with theirs, or be empty.
    async fn apply(&self, unit: &mut U, events: &[Event]) -> Result<Vec<Applied>, HandlerError>;
}

/// Application code of a consumer whose effects are outside the database, such as an HTTP call or an e-mail.
///
/// Each event is handled at least once: outside of any transaction, never in a group, and only after its attempt was
/// counted and leased in the consume log. A failed attempt is repeated like any other. The effect of an attempt that
/// succeeded is repeated only if the process ends, or its lease expires, before the attempt was recorded: at most once
/// for each event in progress.
#[async_trait]
pub trait ExternalHandler: Send + Sync + 'static {
    /// See [`Handler::name`].
    fn name(&self) -> &str;

    /// See [`Handler::event_types`].
    fn event_types(&self) -> Vec<&str>;

    /// Handles one event within the time limit of an attempt. MUST allow for repetition, for example by passing the
    /// event id on as an idempotency key.
    async fn call(&self, event: &Event) -> Result<Applied, HandlerError>;
}

/// A handler, its queue and its settings.
pub struct Subscriber<U: ?Sized> {
    /// Name of the queue.
    pub queue: Cow<'static, str>,
    /// Handler of the events.
    pub handler: AnyHandler<U>,
    /// Settings that differ from those of all consumers.
    pub settings: OwnSettings,
}

/// How often an event takes effect at a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// The effect is in the database, and commits with the record of the event.
    ExactlyOnce,
    /// The effect is outside the database.
    AtLeastOnce,
}

impl Guarantee {
    /// Name in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Guarantee::ExactlyOnce => "exactly once",
            Guarantee::AtLeastOnce => "at least once",
        }
    }
}

/// The two kinds of handlers.
pub enum AnyHandler<U: ?Sized> {
    /// Its effects are in the database: exactly once.
    InTransaction(Arc<dyn Handler<U>>),
    /// Its effects are outside the database: at least once.
    External(Arc<dyn ExternalHandler>),
}

impl<U: ?Sized> AnyHandler<U> {
    /// How often an event takes effect.
    pub const fn guarantee(&self) -> Guarantee {
        match self {
            AnyHandler::InTransaction(_) => Guarantee::ExactlyOnce,
            AnyHandler::External(_) => Guarantee::AtLeastOnce,
        }
    }
}

impl<U: ?Sized + 'static> AnyHandler<U> {
    /// Applies events in a unit of work. An external handler refuses: it runs outside of units of work.
    pub async fn apply(&self, unit: &mut U, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        match self {
            AnyHandler::InTransaction(handler) => handler.apply(unit, events).await,
            AnyHandler::External(_) => {
                Err(HandlerError::Unrecoverable("an external handler has no unit of work".to_owned()))
            }
        }
    }
}

impl<U: ?Sized + 'static> Subscriber<U> {
    /// A consumer whose effects are in the database: it applies each event exactly once.
    pub fn new(queue: impl Into<Cow<'static, str>>, handler: Arc<dyn Handler<U>>) -> Subscriber<U> {
        let handler = AnyHandler::InTransaction(handler);
        Subscriber { queue: queue.into(), handler, settings: OwnSettings::default() }
    }

    /// A consumer whose effects are outside the database: it handles each event at least once.
    pub fn external(queue: impl Into<Cow<'static, str>>, handler: Arc<dyn ExternalHandler>) -> Subscriber<U> {
        let handler = AnyHandler::External(handler);
        Subscriber { queue: queue.into(), handler, settings: OwnSettings::default() }
    }

    /// Replaces the settings of this consumer.
    #[must_use]
    pub fn with_settings(self, settings: OwnSettings) -> Subscriber<U> {
        Subscriber { settings, ..self }
    }

    /// Name of the consumer.
    pub fn name(&self) -> &str {
        match &self.handler {
            AnyHandler::InTransaction(handler) => handler.name(),
            AnyHandler::External(handler) => handler.name(),
        }
    }

    /// Event types that the consumer handles.
    pub fn event_types(&self) -> Vec<&str> {
        match &self.handler {
            AnyHandler::InTransaction(handler) => handler.event_types(),
            AnyHandler::External(handler) => handler.event_types(),
        }
    }
}

// `derive(Clone)` would also require `U: Clone`.
impl<U: ?Sized> Clone for Subscriber<U> {
    fn clone(&self) -> Self {
        Subscriber {
            queue: self.queue.clone(),
            handler: self.handler.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<U: ?Sized> Clone for AnyHandler<U> {
    fn clone(&self) -> Self {
        match self {
            AnyHandler::InTransaction(handler) => AnyHandler::InTransaction(Arc::clone(handler)),
            AnyHandler::External(handler) => AnyHandler::External(Arc::clone(handler)),
        }
    }
}
