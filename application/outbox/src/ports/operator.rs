//! The outbox as operators read and change it: pages, blocked aggregates, unreadable rows, counts, redrives and releases.

use std::ops::Range;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateId, AggregateRef, EventId, OutboxStatus, TenantId};

use super::error::StoreError;
use super::numbered::Numbered;
use super::outbox::{OnFailed, OutboxRow, UnorderedTypes};

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
    pub aggregate_id: Option<AggregateId>,
    /// Only rows created at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only rows created before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only rows with an id above this one. If no index supports the filter, this limits the rows that a page reads.
    pub above_id: Option<i64>,
    /// Only rows with an id below this one: the same limit for a page with the smallest ids first.
    pub below_id: Option<i64>,
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
    /// Number of `SENT` rows: confirmed by the broker. Only the rows with the newest ids are counted.
    pub sent: u64,
    /// Whether the outbox has rows with older ids, of any tenant and status: the `SENT` ones among them are not counted.
    pub more_sent: bool,
    /// Number of `FAILED` rows: failed permanently.
    pub failed: u64,
    /// Creation time of the oldest `NEW` or `RETRY` event that was never confirmed (`create_time`).
    pub oldest_pending: Option<DateTime<Utc>>,
}

/// The events that wait to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Number of `NEW` rows.
    pub new: u64,
    /// Number of `RETRY` rows.
    pub retry: u64,
    /// Earliest time since which one of the due rows is due: its `next_retry_time` or, without one, its `create_time`.
    /// `None` if no row is due.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// Reads the outbox, for operators.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait OperatorQueries: Send {
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
    /// [`blocked_page`](OperatorQueries::blocked_page) MUST NOT be returned, so that the pages of both queries together
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
    /// that the other queries of the outbox can read MUST NOT be returned. With a tenant, rows of other tenants and
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

    /// Counts the rows of a tenant (`None`: all tenants). A `SENT` row is counted only if its id is greater than the
    /// greatest id of the outbox minus `max_ids`. The cost MUST NOT depend on the number of older `SENT` rows.
    async fn outbox_counts(
        &mut self,
        tenant: Option<TenantId>,
        max_ids: i64,
    ) -> Result<OutboxCounts, StoreError>;

    /// The events of all tenants that wait to be published and whose rows have ids in this range. A row is due as in
    /// [`OutboxQueries::outbox_due`](super::OutboxQueries::outbox_due), also if an earlier event of its aggregate blocks it.
    /// The cost MUST depend neither on the number of published rows nor on rows outside of the range.
    async fn outbox_backlog(&mut self, ids: Range<i64>, now: DateTime<Utc>) -> Result<Backlog, StoreError>;

    /// Number of `FAILED` rows of all tenants that no operator has released.
    async fn unreleased_failed_rows(&mut self) -> Result<u64, StoreError>;
}

/// Changes published and failed rows, for operators.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait OperatorRepo: Send {
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
