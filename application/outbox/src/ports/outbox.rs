//! The outbox: events of committed changes and their publishing status.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, PartitionSet, TenantId, Trace};

use super::broker::Confirmed;
use super::error::StoreError;
use super::leases::{OwnedPartition, RelayId};
use super::numbered::Numbered;

/// Origin of an event: request, user and trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventMetadata {
    /// Trace id of the request; absent in a row inserted by SQL.
    pub trace_id: Option<String>,
    /// Request id, if the request has one.
    pub request_id: Option<String>,
    /// User who made the request.
    pub user_id: Option<i64>,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// An event to be appended to the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Event id, generated before the first attempt at the unit of work.
    pub event_id: EventId,
    /// Event type. The outbox does not interpret it.
    pub event_type: String,
    /// Aggregate of the event.
    pub aggregate: AggregateRef,
    /// Version of the aggregate's row after the change.
    pub aggregate_seq: i64,
    /// Payload, a JSON object; immutable once appended.
    pub payload: String,
    /// Origin of the event.
    pub metadata: EventMetadata,
    /// Time at which the event happened.
    pub occurred_at: DateTime<Utc>,
    /// Maximum number of retries (`max_retry_count`): one more counted failure makes the row `FAILED`.
    pub max_retry_count: u32,
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Row id; increases with each insert. Within an aggregate, the ids are in the order of the commits.
    pub id: i64,
    /// Event id.
    pub event_id: EventId,
    /// Event type.
    pub event_type: String,
    /// Aggregate of the event.
    pub aggregate: AggregateRef,
    /// Position within the aggregate; 0 in a row inserted by SQL.
    pub aggregate_seq: i64,
    /// Payload as it was appended.
    pub payload: String,
    /// Origin of the event.
    pub metadata: EventMetadata,
    /// Publishing status.
    pub status: OutboxStatus,
    /// Number of counted failed publishes since the row was appended or last redriven.
    pub retry_count: u32,
    /// Maximum number of retries: one more counted failure makes the row `FAILED`.
    pub max_retry_count: u32,
    /// Time at which a `RETRY` row is due; `None` means immediately.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// Error of the last failed publish.
    pub last_error: Option<String>,
    /// Time at which the event happened.
    pub create_time: DateTime<Utc>,
    /// Time of the last change.
    pub update_time: DateTime<Utc>,
    /// Time at which the broker confirmed the event.
    pub sent_time: Option<DateTime<Utc>>,
    /// Time at which an operator released the aggregate, so that this `FAILED` row no longer blocks later events.
    pub released_time: Option<DateTime<Utc>>,
}

impl OutboxRow {
    /// Partition through which the row is published.
    pub fn partition(&self) -> Partition {
        Partition::of(self.aggregate.tenant, self.aggregate.id)
    }

    /// Trace id of the event. A row inserted by SQL uses its event id.
    pub fn trace_id(&self) -> &str {
        self.metadata.trace_id.as_deref().unwrap_or(self.event_id.as_str())
    }

    /// Trace of the event and of its effects.
    pub fn trace(&self) -> Trace {
        Trace { trace_id: self.trace_id().to_owned(), traceparent: self.metadata.traceparent.clone() }
    }
}

/// Event types whose events are not ordered within their aggregate: such an event neither blocks other events nor is
/// blocked by them. The events of every other type are ordered, including those of unregistered types.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnorderedTypes(BTreeSet<String>);

impl UnorderedTypes {
    /// Whether events of this type are ordered within their aggregate.
    pub fn is_ordered(&self, event_type: &str) -> bool {
        !self.0.contains(event_type)
    }

    /// Names of the types, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<S: Into<String>> FromIterator<S> for UnorderedTypes {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> UnorderedTypes {
        UnorderedTypes(names.into_iter().map(Into::into).collect())
    }
}

/// Arguments of [`OutboxQueries::outbox_due`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueQuery {
    /// Partitions to read.
    pub partitions: PartitionSet,
    /// Time at which the rows must be due.
    pub now: DateTime<Utc>,
    /// Effect of `FAILED` rows on later rows of their aggregate.
    pub on_failed: OnFailed,
    /// Types whose events are not ordered within their aggregate.
    pub unordered: UnorderedTypes,
    /// Maximum number of returned rows.
    pub limit: u32,
}

/// Effect of a `FAILED` row on later rows of its aggregate (`outbox.on-failed`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailed {
    /// Later rows of the aggregate are published.
    #[default]
    Continue,
    /// Later rows of the aggregate are held until an operator decides.
    Hold,
}

/// Selects outbox rows; `None` matches any value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxFilter {
    /// Tenant of the event.
    pub tenant: Option<TenantId>,
    /// Publishing status.
    pub status: Option<OutboxStatus>,
    /// Event type.
    pub event_type: Option<String>,
    /// Type of the aggregate.
    pub aggregate_type: Option<String>,
    /// Id of the aggregate; aggregates of different types may have the same id.
    pub aggregate_id: Option<i64>,
    /// Only rows created at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only rows created before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only rows with an id above this one. If no index supports the filter, this limits the rows that a page reads.
    pub above_id: Option<i64>,
}

/// A row to be published again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// Event id.
    pub event_id: EventId,
    /// Time at which the row becomes due.
    pub due: DateTime<Utc>,
}

/// A redriven row, with its values before the redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedrivenRow {
    /// Tenant of the event.
    pub tenant: TenantId,
    /// Event id.
    pub event_id: EventId,
    /// Status before the redrive: `Sent` or `Failed`.
    pub status: OutboxStatus,
    /// Number of counted failed publishes since the row was appended or last redriven.
    pub retry_count: u32,
    /// Time at which the broker confirmed the event.
    pub sent_time: Option<DateTime<Utc>>,
}

/// An aggregate whose next event cannot be published, because that event comes after `FAILED` events that were not
/// released, or because that event is not due yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Blocked aggregate.
    pub aggregate: AggregateRef,
    /// The blocking event: the first `FAILED` event that was not released, or the event that is not due yet.
    pub event_id: EventId,
    /// Type of the blocking event.
    pub event_type: String,
    /// Last error of the blocking event.
    pub last_error: Option<String>,
    /// Time at which the blocking event failed for the last time or was deferred (`update_time`).
    pub since: DateTime<Utc>,
    /// Time at which the blocking event is due (`next_retry_time`); `None` if an operator has to decide.
    pub until: Option<DateTime<Utc>>,
    /// Number of later `NEW` and `RETRY` events of the aggregate, which wait for the blocking event.
    pub held: u64,
}

/// An outbox row with a stored value that cannot be read, such as an invalid time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    /// Id of the row.
    pub id: i64,
    /// Tenant of the event; `None` if it cannot be read.
    pub tenant: Option<TenantId>,
    /// Event id; `None` if it cannot be read.
    pub event_id: Option<EventId>,
    /// First column that cannot be read.
    pub column: &'static str,
    /// Reason why the value of this column cannot be read.
    pub why: String,
}

/// Number of outbox rows per status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxCounts {
    /// Number of `NEW` rows: not published yet.
    pub new: u64,
    /// Number of `RETRY` rows: to be published again.
    pub retry: u64,
    /// Number of `SENT` rows: confirmed by the broker.
    pub sent: u64,
    /// Number of `FAILED` rows: failed permanently.
    pub failed: u64,
    /// Creation time of the oldest `NEW` or `RETRY` event that was never confirmed (`create_time`).
    pub oldest_pending: Option<DateTime<Utc>>,
}

/// A publish that was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPublish {
    /// Event id.
    pub event_id: EventId,
    /// Status after the failure: `Retry` or `Failed`.
    pub status: OutboxStatus,
    /// Number of counted failed publishes. Includes this failure only if it counts as an attempt.
    pub retry_count: u32,
    /// Time at which the next attempt is due.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// Error text.
    pub error: String,
}

/// Reads the outbox.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait OutboxQueries: Send {
    /// At most `limit` rows that may be published now, smallest id first.
    ///
    /// - A row MUST be `NEW` or `RETRY`, due, and in one of the partitions. A NULL `next_retry_time` is due.
    /// - An ordered row MUST NOT be returned while an earlier (`aggregate_seq`, then `id`) ordered `RETRY` row of its
    ///   aggregate is not due and was never confirmed. Under [`OnFailed::Hold`], an ordered row also MUST NOT be
    ///   returned while an earlier ordered `FAILED` row of its aggregate is not released. A `NEW` row that is not due
    ///   can only be inserted by SQL; it blocks no other row.
    /// - An event of an unordered type neither blocks nor is blocked.
    /// - Ordered rows of an aggregate MUST be returned in the order of `aggregate_seq`, then `id`, and a later row MUST
    ///   NOT be returned without the earlier due rows of its aggregate.
    /// - Blocked rows MUST NOT count against `limit`.
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Vec<OutboxRow>, StoreError>;

    /// Earliest `next_retry_time` after `now` of a pending row in these partitions.
    async fn outbox_next_due(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, StoreError>;

    /// Rows of these events, in any order. Missing events are omitted.
    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` matching rows with an id below `before`, greatest id first.
    async fn outbox_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` matching rows with an id above `after`, smallest id first.
    async fn outbox_after(
        &mut self,
        filter: &OutboxFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError>;

    /// All rows of these aggregates, ordered by aggregate, `aggregate_seq` and id.
    async fn outbox_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<OutboxRow>, StoreError>;

    /// At most `limit` blocked aggregates of a tenant (`None`: all tenants). Each is returned with the id of its first
    /// ordered `FAILED` row that was not released. Only aggregates for which this id is below `before` are returned,
    /// greatest id first. An aggregate without later pending events is also blocked: its next event would be held.
    async fn blocked_page(
        &mut self,
        unordered: &UnorderedTypes,
        tenant: Option<TenantId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError>;

    /// At most `limit` aggregates of a tenant (`None`: all tenants) whose first ordered pending event that was never
    /// confirmed is due only after `now`. Each is returned with the id of the row of this event. Only aggregates for
    /// which this id is below `before` are returned, greatest id first. Under [`OnFailed::Hold`] an aggregate of
    /// [`blocked_page`](OutboxQueries::blocked_page) MUST NOT be returned, so that the pages of both queries together
    /// contain each aggregate once.
    async fn waiting_page(
        &mut self,
        unordered: &UnorderedTypes,
        on_failed: OnFailed,
        tenant: Option<TenantId>,
        now: DateTime<Utc>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Blocked>>, StoreError>;

    /// At most `limit` rows with an id above `after` that contain a value that cannot be read, smallest id first. A row
    /// that the other methods of this trait can read MUST NOT be returned. With a tenant, rows of other tenants and
    /// rows whose tenant cannot be read MUST NOT be returned.
    ///
    /// Reads all rows above `after`, in pages of about 1,000 rows, until `limit` rows are found or the outbox ends. The
    /// caller bounds the cost by its choice of `after`.
    async fn unreadable_rows(
        &mut self,
        tenant: Option<TenantId>,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<UnreadableRow>, StoreError>;

    /// Counts the rows of a tenant (`None`: all tenants).
    async fn outbox_counts(&mut self, tenant: Option<TenantId>) -> Result<OutboxCounts, StoreError>;
}

/// Writes the outbox.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait OutboxRepo: Send {
    /// Adds rows as `NEW`, in the order of `events`. An event id that already exists MUST cause a `Conflict`; ids are
    /// compared byte by byte.
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError>;

    /// Locks the partitions of `holds` and returns those that `owner` still owns under the same epoch. Only rows of the
    /// returned partitions may be settled.
    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError>;

    /// Changes rows to `SENT`. MUST change only `NEW` and `RETRY` rows; returns the number of changed rows.
    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Changes rows to `RETRY` or `FAILED`. MUST change only `NEW` and `RETRY` rows; returns the number of changed
    /// rows.
    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Sets `RETRY` rows of these partitions that are due only after `beyond` to be due at `now`; returns their number.
    /// MUST change only rows with counted attempts: a row without them was redriven, and its due time is part of the
    /// redrive. Runs regularly, so it MUST use an index to read only rows that are due after `beyond`.
    async fn bring_retries_forward(
        &mut self,
        partitions: PartitionSet,
        beyond: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError>;

    /// Changes rows to `RETRY`, due at the given time, with `retry_count` 0 and without `released_time`. `last_error`
    /// and `sent_time` are kept; `sent_time` shows that the row was confirmed before. MUST change only `SENT` and
    /// `FAILED` rows. Returns the changed rows with their earlier values, ordered by event id. The commit MUST wake the
    /// relay, as after `append`.
    async fn redrive(&mut self, rows: &[Redrive], now: DateTime<Utc>)
    -> Result<Vec<RedrivenRow>, StoreError>;

    /// Releases the aggregate permanently: its ordered `FAILED` rows no longer block later events (`released_time`).
    /// Returns the number of rows that this call released. The commit MUST wake the relay, as after `append`.
    async fn release(
        &mut self,
        aggregate: &AggregateRef,
        unordered: &UnorderedTypes,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError>;
}
