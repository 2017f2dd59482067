//! The outbox: the events of every committed change, and how far each has come.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, PartitionSet, TenantId, Trace};

use super::{Confirmed, Numbered, PartitionHold, StoreError};

/// Who and what caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventMetadata {
    /// The trace of the request; absent in a row inserted by hand.
    pub trace_id: Option<String>,
    /// The request, where it has an id of its own.
    pub request_id: Option<String>,
    /// The acting user.
    pub user_id: Option<i64>,
    /// The W3C trace context.
    pub traceparent: Option<String>,
}

/// An event on its way into the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Chosen before the attempt.
    pub event_id: EventId,
    /// Its type, as text: the outbox carries what it is given.
    pub event_type: String,
    /// What it is about.
    pub aggregate: AggregateRef,
    /// The version of the aggregate's row after the change.
    pub aggregate_seq: i64,
    /// The payload, a JSON object. Immutable from here on.
    pub payload: String,
    /// Who and what caused it.
    pub metadata: EventMetadata,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// How many failures may be followed by another attempt (`max_retry_count`); one more is final.
    pub max_retry_count: u32,
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Grows with insertion; within an aggregate in the order of commits.
    pub id: i64,
    /// The event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// What it is about.
    pub aggregate: AggregateRef,
    /// Its place in the order of the aggregate; 0 in a row inserted by hand.
    pub aggregate_seq: i64,
    /// The payload as it was appended.
    pub payload: String,
    /// Who and what caused it.
    pub metadata: EventMetadata,
    /// How far it has come.
    pub status: OutboxStatus,
    /// How many publishes failed.
    pub retry_count: u32,
    /// How many failures may be followed by another attempt; one more is final.
    pub max_retry_count: u32,
    /// When a `RETRY` is due; `None` is at once.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// What the last failure was.
    pub last_error: Option<String>,
    /// When the event happened.
    pub create_time: DateTime<Utc>,
    /// When the row last changed.
    pub update_time: DateTime<Utc>,
    /// When the broker confirmed it.
    pub sent_time: Option<DateTime<Utc>>,
    /// When a person let later events of the aggregate pass this one, which is `FAILED`.
    pub released_time: Option<DateTime<Utc>>,
}

impl OutboxRow {
    /// The partition it is published by.
    pub fn partition(&self) -> Partition {
        Partition::of(self.aggregate.tenant, self.aggregate.id)
    }

    /// The trace it belongs to; a row inserted by hand is traced by its own id.
    pub fn trace_id(&self) -> &str {
        self.metadata.trace_id.as_deref().unwrap_or(self.event_id.as_str())
    }

    /// The trace of the event and of what it causes.
    pub fn trace(&self) -> Trace {
        Trace { trace_id: self.trace_id().to_owned(), traceparent: self.metadata.traceparent.clone() }
    }
}

/// The names of the event types that have no place in the order of their aggregate: such an event neither holds others
/// nor is held. Every other type is ordered, also one that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnorderedTypes(BTreeSet<String>);

impl UnorderedTypes {
    /// Whether events of this type have a place in the order of their aggregate.
    pub fn is_ordered(&self, event_type: &str) -> bool {
        !self.0.contains(event_type)
    }

    /// The names, always in the same order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<S: Into<String>> FromIterator<S> for UnorderedTypes {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> UnorderedTypes {
        UnorderedTypes(names.into_iter().map(Into::into).collect())
    }
}

/// What `outbox_due` is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueQuery {
    /// The partitions of the rows.
    pub partitions: PartitionSet,
    /// When they have to be due.
    pub now: DateTime<Utc>,
    /// What `FAILED` rows hold.
    pub on_failed: OnFailed,
    /// The types that neither hold nor are held.
    pub unordered: UnorderedTypes,
    /// At most how many rows.
    pub limit: u32,
}

/// What a `FAILED` row means for later ones of its aggregate (`outbox.on-failed`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailed {
    /// They go on.
    #[default]
    Continue,
    /// They are held until a person decides.
    Hold,
}

/// Which rows a person wants to see; `None` is any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxFilter {
    /// Of which tenant.
    pub tenant: Option<TenantId>,
    /// In which status.
    pub status: Option<OutboxStatus>,
    /// Of which type.
    pub event_type: Option<String>,
    /// About which aggregate id.
    pub aggregate_id: Option<i64>,
    /// Created at or after.
    pub from: Option<DateTime<Utc>>,
    /// Created before.
    pub to: Option<DateTime<Utc>>,
}

/// A row that a person wants published again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The event.
    pub event_id: EventId,
    /// When it is due.
    pub due: DateTime<Utc>,
}

/// A row that was redriven, as it stood before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedrivenRow {
    /// Its tenant.
    pub tenant: TenantId,
    /// The event.
    pub event_id: EventId,
    /// `Sent` or `Failed`.
    pub status: OutboxStatus,
    /// How many publishes had failed.
    pub retry_count: u32,
    /// When the broker confirmed it.
    pub sent_time: Option<DateTime<Utc>>,
}

/// An aggregate whose next event waits: behind `FAILED` ones that nobody released, or for its own time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The aggregate.
    pub aggregate: AggregateRef,
    /// Its first `FAILED` event that nobody released, or the event that waits for its time.
    pub event_id: EventId,
    /// The type of that event.
    pub event_type: String,
    /// What that event's last failure was.
    pub last_error: Option<String>,
    /// When that event was given up, or began to wait (`update_time`).
    pub since: DateTime<Utc>,
    /// When that event is due (`next_retry_time`); `None`: once a person has decided about it.
    pub until: Option<DateTime<Utc>>,
    /// How many `NEW` and `RETRY` events of the aggregate, later in its order, wait behind it.
    pub held: u64,
}

/// How many rows of the outbox are in each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxCounts {
    /// Not published yet.
    pub new: u64,
    /// To be published again.
    pub retry: u64,
    /// Confirmed.
    pub sent: u64,
    /// Given up.
    pub failed: u64,
    /// When the oldest `NEW` or `RETRY` event happened (`create_time`) that was never confirmed.
    pub oldest_pending: Option<DateTime<Utc>>,
}

/// A publish that did not end in a confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPublish {
    /// The event.
    pub event_id: EventId,
    /// `Retry` or `Failed`.
    pub status: OutboxStatus,
    /// How many publishes have failed now.
    pub retry_count: u32,
    /// When the next is due.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// What happened.
    pub error: String,
}

/// Reads the outbox.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait OutboxQueries: Send {
    /// At most `limit` rows that may be published now, smallest id first: `NEW` or `RETRY` and due, in one of the
    /// partitions, and with no earlier (`aggregate_seq`, then `id`), ordered, `RETRY` row of the same aggregate that is
    /// not due and was never confirmed (under [`OnFailed::Hold`]: no earlier `FAILED` one that nobody released either).
    /// A `NEW` row that is not due, as only a person inserts it, holds back none. An event of an unordered type neither
    /// holds nor is held. A NULL `next_retry_time` is due. Rows of an aggregate MUST come in their order, and a later one
    /// MUST NOT come without its earlier due ones. Rows that are held back MUST NOT count against `limit`.
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Vec<OutboxRow>, StoreError>;

    /// The earliest `next_retry_time` after `now` of a pending row in the partitions.
    async fn outbox_next_due(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, StoreError>;

    /// The rows of these events, in any order; those that do not exist are left out.
    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` rows with an id below `before`, greatest id first.
    async fn outbox_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` rows with an id above `after`, smallest id first.
    async fn outbox_after(
        &mut self,
        filter: &OutboxFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// Every row about these aggregates, ordered by aggregate, `aggregate_seq` and id.
    async fn outbox_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` blocked aggregates of a tenant (`None`: of all), each numbered by the id of its first `FAILED`
    /// ordered row that nobody released, numbers below `before`, greatest first. One without later pending events is
    /// blocked as well: whatever comes next would be held.
    async fn blocked_page(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError>;

    /// At most `limit` aggregates of a tenant (`None`: of all) whose first ordered pending event that was never confirmed is
    /// due only after `now`, each numbered by the id of that row, numbers below `before`, greatest first.
    async fn waiting_page(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        now: DateTime<Utc>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError>;

    /// Counts the rows of a tenant (`None`: of all).
    async fn outbox_counts(&mut self, tenant: Option<TenantId>) -> Result<OutboxCounts, StoreError>;
}

/// Writes the outbox.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait OutboxRepo: Send {
    /// Adds rows as `NEW`, in the order given. A taken event id MUST be a `Conflict`, compared byte by byte.
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError>;

    /// Locks the partitions and tells which of the holds are still good: same owner, same epoch. Settle only those.
    async fn fence(
        &mut self,
        owner: &super::RelayId,
        holds: &[PartitionHold],
    ) -> Result<PartitionSet, StoreError>;

    /// Moves rows to `SENT`. Only rows that are `NEW` or `RETRY` MUST move; tells how many did.
    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Moves rows to `RETRY` or `FAILED`. Only rows that are `NEW` or `RETRY` MUST move; tells how many did.
    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Moves rows to `RETRY`, due at the time given, with no attempt counted and no `released_time`; `last_error` stays,
    /// and so does `sent_time`, by which it is known that the row was confirmed before. Only rows that are `SENT` or
    /// `FAILED` MUST move. Returns those that did, as they stood before, in order of event ids. MUST wake the relay as `append` does.
    async fn redrive(&mut self, rows: &[Redrive], now: DateTime<Utc>)
    -> Result<Vec<RedrivenRow>, StoreError>;

    /// Lets later events of the aggregate pass its ordered `FAILED` ones for good (`released_time`); tells how many of
    /// them were released just now. MUST wake the relay as `append` does.
    async fn release(
        &mut self,
        aggregate: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError>;
}
