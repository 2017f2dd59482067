//! Events: the envelope in which they travel, where they stand at the outbox and at each consumer, and when a failed
//! attempt is made again.
//!
//! Values and rules alone: nothing here waits, reads a clock, draws a random number or talks to anything.
//!
//! **Invariant:** every function is total; a refusal is a value that says what was refused and why.

mod aggregate;
mod consume;
mod envelope;
mod fields;
mod ids;
mod named;
mod outbox;
mod retry;
mod text;
mod trace;

pub use aggregate::AggregateRef;
pub use consume::{ConsumeStatus, FailureKind};
pub use envelope::{Envelope, rfc3339};
pub use fields::{EnvelopeError, Fields};
pub use ids::{EventId, IdError, MAX_ID, TenantId};
pub use named::UnknownName;
pub use outbox::{HistoryKind, OutboxStatus, PARTITIONS, Partition, PartitionSet};
pub use retry::{Jitter, Retry, RetryPolicy, RetryPolicyError};
pub use text::TextError;
pub use trace::Trace;
