//! An event as a handler receives it.

use std::fmt;
use std::ops::Deref;

use chrono::{DateTime, Utc};
use handover_events::{AggregateId, EventType, TenantId};
use handover_outbox::consumers::{Event as StoredEvent, HandlerError};
use handover_outbox::ports::OutboxRow;

/// An event as a handler receives it. Dereferences to the payload.
///
/// ```
/// use handover::Event;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
///
/// async fn print(event: Event<BookLent>) -> handover::Result {
///     println!("{}: number {} of book {}", event.event_id(), event.sequence(), event.aggregate_id());
///     println!("{} has it since {}", event.reader, event.occurred_at()); // a field of the payload
///     Ok(())
/// }
/// # let _ = print;
/// ```
///
/// The derive macro of the same name makes a struct an event type: see [`EventType`].
// The field names are long, because they would hide fields of the payload with the same names.
#[derive(Debug, Clone)]
pub struct Event<E> {
    stored_row: OutboxRow,
    typed_payload: E,
}

impl<E> Event<E> {
    /// Id of the event: the idempotency key for effects in other systems.
    pub fn event_id(&self) -> &str {
        self.stored_row.event_id.as_str()
    }

    /// Id of the aggregate that the event belongs to.
    pub fn aggregate_id(&self) -> &AggregateId {
        &self.stored_row.aggregate.id
    }

    /// Position of the event within its aggregate.
    pub fn sequence(&self) -> i64 {
        self.stored_row.aggregate_seq
    }

    /// Time at which the event occurred.
    pub fn occurred_at(&self) -> DateTime<Utc> {
        self.stored_row.create_time
    }

    /// Trace id of the request that caused the event; without one, the event id.
    pub fn trace_id(&self) -> &str {
        self.stored_row.trace_id()
    }

    /// Id of the request that caused the event; see [`Options::request_id`](crate::Options::request_id).
    pub fn request_id(&self) -> Option<&str> {
        self.stored_row.metadata.request_id.as_deref()
    }

    /// The W3C `traceparent` of the request that caused the event, for requests to other systems.
    pub fn traceparent(&self) -> Option<&str> {
        self.stored_row.metadata.traceparent.as_deref()
    }

    /// Tenant that the aggregate belongs to.
    pub fn tenant(&self) -> TenantId {
        self.stored_row.aggregate.tenant
    }

    /// The payload.
    pub fn into_payload(self) -> E {
        self.typed_payload
    }
}

impl<E: EventType> Event<E> {
    pub(crate) fn of(event: &StoredEvent) -> Result<Event<E>, HandlerError> {
        Ok(Event { typed_payload: event.payload()?, stored_row: event.row.clone() })
    }
}

impl<E> Deref for Event<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.typed_payload
    }
}

impl<E> fmt::Display for Event<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stored_row.event_type, self.stored_row.event_id)
    }
}
