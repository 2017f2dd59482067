//! Events: the envelope, the states of an event at the outbox and at each consumer, partitions, and retry policies.
//!
//! Only values and rules: no async, no clock, no random numbers, no I/O.
//!
//! **Invariant:** every function is total; a failure is an error value that states the reason.

#![warn(missing_docs)]

mod aggregate;
mod consume;
mod envelope;
mod event_type;
mod fields;
mod ids;
mod json;
mod named;
mod outbox;
mod retry;
mod text;
mod time;
mod trace;

pub use aggregate::{AggregateId, AggregateIdError, AggregateRef, EventKey, MAX_AGGREGATE_KEY_BYTES};
pub use consume::{ConsumeStatus, FailureKind};
pub use envelope::{Envelope, rfc3339};
pub use event_type::{
    Alternative, EventDescription, EventType, Field, Keyed, Payload, PayloadField, deserialize_payload,
    id_schema, visible, with_field, with_part,
};
pub use fields::{EnvelopeError, Fields};
pub use handover_macros::{Event, Payload};
pub use ids::{EventId, IdError, MAX_ID, TenantId};
pub use json::{Json, JsonNumber};
pub use named::UnknownName;
pub use outbox::{HistoryKind, OutboxStatus, PARTITIONS, Partition, PartitionSet};
pub use retry::{Jitter, Retry, RetryPolicy, RetryPolicyError};
pub use text::TextError;
pub use time::{TimeError, parse_time};
pub use trace::Trace;
