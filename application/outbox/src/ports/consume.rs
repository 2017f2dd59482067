//! The consume log: what has become of each event at each consumer.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, EventId, TenantId};

use super::{Numbered, OutboxRow, StoreError};

/// A row of the consume log, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumeRecord {
    /// Where the event stands.
    pub status: ConsumeStatus,
    /// How many attempts were counted.
    pub attempts: u32,
    /// When a `FAILED` one is tried again.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// Until when a `PROCESSING` one is somebody's.
    pub lease_until: Option<DateTime<Utc>>,
    /// What the last failure was.
    pub error_message: Option<String>,
    /// When the row last changed.
    pub consume_time: DateTime<Utc>,
}

/// What the log must hold for a write to happen: the guard against two workers settling one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No row yet.
    Absent,
    /// A row in this state with this many attempts.
    At(ConsumeStatus, u32),
}

/// A row of the consume log, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    /// The consumer.
    pub consumer: String,
    /// The event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// What it is about.
    pub aggregate: AggregateRef,
    /// Its place in the order of the aggregate.
    pub aggregate_seq: i64,
    /// What the log must hold now.
    pub expected: Expected,
    /// What it holds afterwards.
    pub status: ConsumeStatus,
    /// How many attempts are counted.
    pub attempts: u32,
    /// When a `FAILED` one is tried again.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// Until when a `PROCESSING` one is ours.
    pub lease_until: Option<DateTime<Utc>>,
    /// What went wrong, if it did.
    pub error_message: Option<String>,
    /// The key under which the effect is idempotent, if it has one.
    pub idempotency_key: Option<String>,
    /// What the handler says it did.
    pub consume_result: Option<String>,
    /// SHA-256 of the payload, hexadecimal.
    pub payload_hash: String,
    /// The trace of the event.
    pub trace_id: String,
    /// How long the attempt took, in milliseconds.
    pub cost_ms: i64,
    /// When.
    pub consume_time: DateTime<Utc>,
}

/// A row of the consume log, whole, as a person looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumed {
    /// The consumer.
    pub consumer: String,
    /// The event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// What it is about.
    pub aggregate: AggregateRef,
    /// Its place in the order of the aggregate.
    pub aggregate_seq: i64,
    /// Where it stands.
    pub record: ConsumeRecord,
    /// The key under which the effect is idempotent, if it has one.
    pub idempotency_key: Option<String>,
    /// What the handler says it did.
    pub consume_result: Option<String>,
    /// SHA-256 of the payload, hexadecimal.
    pub payload_hash: String,
    /// The trace of the event.
    pub trace_id: String,
    /// How long the attempt took, in milliseconds.
    pub cost_ms: i64,
}

/// Which rows of the consume log a person wants to see; `None` is any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumedFilter {
    /// Of which tenant.
    pub tenant: Option<TenantId>,
    /// Of which event.
    pub event_id: Option<EventId>,
    /// Of which consumer.
    pub consumer: Option<String>,
    /// In which state.
    pub status: Option<ConsumeStatus>,
}

/// How many events stand where at one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumeCount {
    /// The consumer.
    pub consumer: String,
    /// The state.
    pub status: ConsumeStatus,
    /// How many.
    pub events: u64,
}

/// An event that a consumer takes and has not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unapplied {
    /// The event.
    pub event: OutboxRow,
    /// Its row in the consume log, if there is one; never `SUCCESS` or `DEAD`.
    pub record: Option<ConsumeRecord>,
}

/// From where on a consumer takes events, and up to when it was checked that none was lost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerSubscription {
    /// The greatest id of the outbox when it subscribed: rows up to it are history. A position and no time, since clocks
    /// can be set.
    pub after_id: i64,
    /// Every event sent up to here is in the consume log.
    pub checked_until: DateTime<Utc>,
}

/// Reads the consume log.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait ConsumeQueries: Send {
    /// One row.
    async fn consumption(
        &mut self,
        consumer: &str,
        event: &EventId,
    ) -> Result<Option<ConsumeRecord>, StoreError>;

    /// The events about these aggregates, of these types, with an id greater than `after_id`, that the consumer has not
    /// settled (no row, or one that is neither `SUCCESS` nor `DEAD`), ordered by aggregate, `aggregate_seq` and id,
    /// whatever their status in the outbox.
    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError>;

    /// At most `limit` events that nobody may come back for: `WAITING` or `FAILED` ones untouched (`consume_time`) and
    /// due since `idle_since`, `PROCESSING` ones whose lease ended before `now`, and any written later than `now`, by a
    /// clock that was set back since. Oldest `consume_time` first.
    async fn leftovers(
        &mut self,
        consumer: &str,
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError>;

    /// At most `limit` events of these types, with an id greater than `after_id`, sent after `after` and up to `until`,
    /// that are not in the consumer's log at all: what a broker lost. Earliest `sent_time` first.
    async fn unseen(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` rows numbered below `before`, greatest number first.
    async fn consumed_page(
        &mut self,
        filter: &ConsumedFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError>;

    /// Every row of these events, in the order in which they were first written.
    async fn consumed_of(&mut self, events: &[EventId]) -> Result<Vec<Consumed>, StoreError>;

    /// Every row about these aggregates, in any order. May read the whole log: for mending what was lost.
    async fn consumed_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<Consumed>, StoreError>;

    /// Counts the rows of a tenant (`None`: of all), by consumer, then status, in order of names.
    async fn consume_counts(&mut self, tenant: Option<TenantId>) -> Result<Vec<ConsumeCount>, StoreError>;

    /// The consumer's subscription, if it ever subscribed.
    async fn consumer_subscription(
        &mut self,
        consumer: &str,
    ) -> Result<Option<ConsumerSubscription>, StoreError>;
}

/// Writes the consume log.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait ConsumeLog: Send {
    /// Writes rows, each only if the log holds what is expected of it; otherwise MUST be a `Conflict`, and the unit
    /// MUST NOT be committable. Consumer and event id are unique, compared byte by byte.
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError>;

    /// Subscribes a consumer to what comes after the greatest id of the outbox, checked until `now`; one that subscribed
    /// before keeps what it has. Returns what holds.
    async fn subscribe_consumer(
        &mut self,
        consumer: &str,
        now: DateTime<Utc>,
    ) -> Result<ConsumerSubscription, StoreError>;

    /// Sets `checked_until`: also backward, after a clock was set back.
    async fn set_checked_until(&mut self, consumer: &str, until: DateTime<Utc>) -> Result<(), StoreError>;
}
