//! The consume log: the state of each event at each consumer.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus, EventId, TenantId};

use super::error::StoreError;
use super::numbered::Numbered;
use super::outbox::OutboxRow;

/// A consume-log record as needed to process an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumeRecord {
    /// State of the event.
    pub status: ConsumeStatus,
    /// Number of counted attempts to apply the event.
    pub attempts: u32,
    /// Next attempt of a `FAILED` event, or of the one that a `WAITING` event waits for.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// End of the lease of the worker that processes a `PROCESSING` event.
    pub lease_until: Option<DateTime<Utc>>,
    /// Error of the last failed attempt.
    pub error_message: Option<String>,
    /// Time of the last change.
    pub consume_time: DateTime<Utc>,
}

/// Expected state of a record before a write; prevents two workers from settling one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No record exists.
    Absent,
    /// A record with this status and number of attempts exists.
    At(ConsumeStatus, u32),
}

/// A consume-log record to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    /// Name of the consumer.
    pub consumer: String,
    /// Event id.
    pub event_id: EventId,
    /// Event type.
    pub event_type: String,
    /// Aggregate of the event.
    pub aggregate: AggregateRef,
    /// Position of the event within its aggregate.
    pub aggregate_seq: i64,
    /// Expected state of the record before it is written.
    pub expected: Expected,
    /// State of the event after the record is written.
    pub status: ConsumeStatus,
    /// Number of counted attempts to apply the event.
    pub attempts: u32,
    /// Next attempt of a `FAILED` event, or of the one that a `WAITING` event waits for.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// End of this worker's lease of a `PROCESSING` event.
    pub lease_until: Option<DateTime<Utc>>,
    /// Error of the last failed attempt, if there is one.
    pub error_message: Option<String>,
    /// Idempotency key of the effect, if it has one.
    pub idempotency_key: Option<String>,
    /// Result reported by the handler.
    pub consume_result: Option<String>,
    /// SHA-256 of the payload, in hexadecimal.
    pub payload_hash: String,
    /// Trace id of the event.
    pub trace_id: String,
    /// Duration of the successful attempt in milliseconds; 0 if there is none.
    pub cost_ms: i64,
    /// Time at which the record is written.
    pub consume_time: DateTime<Utc>,
}

/// A complete consume-log record, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumed {
    /// Name of the consumer.
    pub consumer: String,
    /// Event id.
    pub event_id: EventId,
    /// Event type.
    pub event_type: String,
    /// Aggregate of the event.
    pub aggregate: AggregateRef,
    /// Position of the event within its aggregate.
    pub aggregate_seq: i64,
    /// State of the event.
    pub record: ConsumeRecord,
    /// Idempotency key of the effect, if it has one.
    pub idempotency_key: Option<String>,
    /// Result reported by the handler.
    pub consume_result: Option<String>,
    /// SHA-256 of the payload, in hexadecimal.
    pub payload_hash: String,
    /// Trace id of the event.
    pub trace_id: String,
    /// Duration of the successful attempt in milliseconds; 0 if there is none.
    pub cost_ms: i64,
}

/// Selects consume-log records; `None` matches any value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumedFilter {
    /// Tenant of the event.
    pub tenant: Option<TenantId>,
    /// Event id.
    pub event_id: Option<EventId>,
    /// Name of the consumer.
    pub consumer: Option<String>,
    /// State of the event at the consumer.
    pub status: Option<ConsumeStatus>,
    /// Only records that changed last at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only records that changed last before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only records with an id above this one: bounds the number of records that a page without an index reads.
    pub above_id: Option<i64>,
}

/// Number of events in one state at one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumeCount {
    /// Name of the consumer.
    pub consumer: String,
    /// State of the events at the consumer.
    pub status: ConsumeStatus,
    /// Number of events in this state at this consumer.
    pub events: u64,
}

/// Number of events by consumer and state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumeCounts {
    /// Sorted by the name of the consumer, then of the state. Of the `SUCCESS` records, only those with the newest ids
    /// are counted.
    pub counts: Vec<ConsumeCount>,
    /// Whether the log has records with older ids, of any tenant, consumer and state: the `SUCCESS` ones among them are
    /// not counted.
    pub more_success: bool,
}

/// An event that a consumer handles and has not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unapplied {
    /// Outbox row of the event.
    pub event: OutboxRow,
    /// Consume-log record, if one exists; in results of [`ConsumeQueries::unapplied`] never `SUCCESS` or `DEAD`.
    pub record: Option<ConsumeRecord>,
}

/// Start position of a consumer, and the time up to which it was checked for lost events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerSubscription {
    /// Greatest outbox id at the time of the subscription; the consumer ignores rows up to this id, unless they are
    /// delivered. The position is an id, not a time, because clocks can be set.
    pub after_id: i64,
    /// Every event sent up to this time is in the consume log.
    pub checked_until: DateTime<Utc>,
}

/// An event type that processes have registered for a consumer: they run the consumer with a handler of this type.
/// Processes of other versions leave events of the type to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredType {
    /// Name of the consumer.
    pub consumer: String,
    /// Event type.
    pub event_type: String,
    /// End of the lease, by the database clock. The observer decides whether the lease has ended
    /// ([`crate::LeaseWatch`]).
    pub alive_until: DateTime<Utc>,
}

/// Reads the consume log.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait ConsumeQueries: Send {
    /// Record of one event.
    async fn consumption(
        &mut self,
        consumer: &str,
        event: &EventId,
    ) -> Result<Option<ConsumeRecord>, StoreError>;

    /// Events of these aggregates that the consumer has not settled (no record, or one that is neither `SUCCESS` nor
    /// `DEAD`), with any status in the outbox. Their type is one of `types` or registered for the consumer; without `types`,
    /// the result is empty. An event without a record MUST be omitted if its id is not greater than `after_id`, or if the
    /// consumer is one of its idle consumers. Ordered by aggregate, `aggregate_seq` and id.
    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError>;

    /// Of each of these aggregates, the first `limit` of the [unapplied](ConsumeQueries::unapplied) events whose
    /// `aggregate_seq` is not lower than the number beside the aggregate. No aggregate occurs twice. The cost MUST NOT depend
    /// on the number of events with a lower `aggregate_seq`.
    async fn unapplied_from(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[(AggregateRef, i64)],
        limit: u32,
    ) -> Result<Vec<Unapplied>, StoreError>;

    /// At most `limit` events of other types than `except` that may have no delivery left, oldest `consume_time` first:
    ///
    /// - `WAITING` and `FAILED` events whose record was last written at or before `idle_since` and has no retry time
    ///   later than `now`;
    /// - `PROCESSING` events whose lease ended before `now`;
    /// - events whose record has a `consume_time` later than `now`: the clock has been set back since the write.
    async fn stale_consumptions(
        &mut self,
        consumer: &str,
        except: &[&str],
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError>;

    /// At most `limit` events with an id greater than `after_id`, sent after `after` and up to `until`, that have no
    /// record in the consumer's log: the broker lost them. Their type is one of `types` or registered for the consumer;
    /// without `types`, the result is empty. An event of whose idle consumers it is one MUST be omitted. Earliest `sent_time`
    /// first. Unreadable rows are omitted, and MUST NOT make the result shorter.
    async fn unconsumed_events(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` matching records with an id below `before`, greatest id first.
    async fn consumed_page(
        &mut self,
        filter: &ConsumedFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError>;

    /// All records of these events, in the order in which they were first written.
    async fn consumed_of(&mut self, events: &[EventId]) -> Result<Vec<Consumed>, StoreError>;

    /// All records about these aggregates, in any order. May read the whole log; used for repair only.
    async fn consumed_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<Consumed>, StoreError>;

    /// Counts the records of a tenant (`None`: all tenants) by consumer and status. A `SUCCESS` record is counted only if
    /// its id is greater than the greatest id of the log minus `max_ids`. The cost MUST NOT depend on the number of older
    /// `SUCCESS` records.
    async fn consume_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<ConsumeCounts, StoreError>;

    /// Subscription of the consumer, if it ever subscribed.
    async fn consumer_subscription(
        &mut self,
        consumer: &str,
    ) -> Result<Option<ConsumerSubscription>, StoreError>;

    /// The registered types of all consumers, ordered by consumer and type.
    async fn registered_types(&mut self) -> Result<Vec<RegisteredType>, StoreError>;
}

/// Writes the consume log.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait ConsumeLog: Send {
    /// Writes records, each only if the log contains its expected state. Otherwise the result MUST be `Conflict`, and
    /// the unit of work MUST NOT be committable. Consumer and event id are unique and compared byte by byte.
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError>;

    /// Subscribes a consumer to all events after the greatest outbox id, with `checked_until` set to `now`. A consumer
    /// that has subscribed before keeps its position. Returns the stored subscription.
    async fn subscribe_consumer(
        &mut self,
        consumer: &str,
        now: DateTime<Utc>,
    ) -> Result<ConsumerSubscription, StoreError>;

    /// Sets `checked_until`, also to an earlier time after a clock was set back.
    async fn set_checked_until(&mut self, consumer: &str, until: DateTime<Utc>) -> Result<(), StoreError>;

    /// Registers these types for a consumer, or renews their registration: its lease ends `for_ms` milliseconds after
    /// the current time of the database clock. Other types of the consumer stay registered.
    async fn register_types(&mut self, consumer: &str, types: &[&str], for_ms: u32)
    -> Result<(), StoreError>;

    /// Removes registrations whose lease has ended. MUST NOT remove one that differs from the given one: a process has
    /// renewed it since it was read.
    async fn unregister_types(&mut self, ended: &[RegisteredType]) -> Result<(), StoreError>;
}
