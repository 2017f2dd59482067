//! The outbox: events of committed changes and their publishing status.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus, Partition, PartitionSet, Trace};
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::broker::Confirmed;
use super::error::StoreError;
use super::event_group::EventGroup;
use super::idle_consumers::IdleConsumers;
use super::leases::OwnedPartition;
use super::relay_id::RelayId;

/// Origin of an event: request, user and trace. A store keeps it as the text of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventMetadata {
    /// Trace id of the request; absent in a row inserted by SQL.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_valid")]
    pub trace_id: Option<String>,
    /// Request id, if the request has one.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_valid")]
    pub request_id: Option<String>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_valid")]
    pub traceparent: Option<String>,
    /// User who made the request.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_valid")]
    pub user_id: Option<i64>,
}

impl EventMetadata {
    /// Reads the text of a JSON object, which may have been written by SQL: unknown fields and values of another type
    /// are ignored, and of several fields with the same name the last applies.
    pub fn from_text(text: &str) -> Result<EventMetadata, serde_json::Error> {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
        EventMetadata::deserialize(MapDeserializer::new(fields.into_iter()))
    }

    /// The text of a JSON object with the fields that have a value; `None` if no field has one.
    pub fn to_text(&self) -> Option<String> {
        if *self == EventMetadata::default() { None } else { serde_json::to_string(self).ok() }
    }
}

/// Reads a value that may have another type, which counts as absent.
fn if_valid<'de, D: Deserializer<'de>, T: DeserializeOwned>(value: D) -> Result<Option<T>, D::Error> {
    let raw = <&RawValue>::deserialize(value)?;
    Ok(serde_json::from_str(raw.get()).ok().flatten())
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
    /// Position within the aggregate, such as the version of the aggregate's row after the change. `None`: the store
    /// assigns the next number.
    pub aggregate_seq: Option<i64>,
    /// Payload, a JSON object; immutable once appended, unless an erasure masks it.
    pub payload: String,
    /// Origin of the event.
    pub metadata: EventMetadata,
    /// Time at which the event happened.
    pub occurred_at: DateTime<Utc>,
    /// Maximum number of retries (`max_retry_count`): one more counted failure makes the row `FAILED`.
    pub max_retry_count: u32,
    /// Routing key with which the event is published, at most 255 bytes. A relay that does not know the type needs it.
    /// `None`: the relay uses the routing key of the registered type ([`crate::EventRegistry::routing_key`]).
    pub routing_key: Option<String>,
    /// Consumers that get no delivery of the event.
    pub idle_consumers: IdleConsumers,
    /// Time before which the event is not published; later events of its aggregate wait for it. `None`: at once.
    pub due: Option<DateTime<Utc>>,
}

impl NewEvent {
    /// Status of the row. A row with a due time is a `RETRY` row without attempts, because such a row holds back the later
    /// events of its aggregate.
    pub fn status(&self) -> OutboxStatus {
        if self.due.is_some() { OutboxStatus::Retry } else { OutboxStatus::New }
    }
}

/// An event that another outbox published and a consumer of this one received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// Event id that the other outbox gave.
    pub event_id: EventId,
    /// Event type.
    pub event_type: String,
    /// Aggregate of the event.
    pub aggregate: AggregateRef,
    /// Position within the aggregate that the other outbox gave.
    pub aggregate_seq: i64,
    /// Payload, a JSON object.
    pub payload: String,
    /// Origin of the event.
    pub metadata: EventMetadata,
    /// Time at which the event happened.
    pub occurred_at: DateTime<Utc>,
    /// Time at which the event was received.
    pub received_at: DateTime<Utc>,
    /// Maximum number of retries if an operator redrives the row.
    pub max_retry_count: u32,
    /// Routing key if an operator redrives the row; see [`NewEvent::routing_key`].
    pub routing_key: Option<String>,
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
    /// Payload as it was appended, or as an erasure masked it.
    pub payload: String,
    /// Origin of the event.
    pub metadata: EventMetadata,
    /// Publishing status.
    pub status: OutboxStatus,
    /// Number of counted failed publishes since the row was appended or last redriven.
    pub retry_count: u32,
    /// Maximum number of retries: one more counted failure makes the row `FAILED`.
    pub max_retry_count: u32,
    /// Routing key of the writer; `None` in a row inserted by SQL, and in a row of a process of outbox schema 2.
    pub routing_key: Option<String>,
    /// Consumers that get no delivery of the event; none in a row of a process of outbox schema 8.
    pub idle_consumers: IdleConsumers,
    /// Time at which a `RETRY` row is due; `None` means immediately.
    pub next_retry_time: Option<DateTime<Utc>>,
    /// Error of the last failed publish.
    pub last_error: Option<String>,
    /// Time at which the event happened.
    pub create_time: DateTime<Utc>,
    /// Time of the last change.
    pub update_time: DateTime<Utc>,
    /// Time at which the broker confirmed the event, or at which it was received from another outbox.
    pub sent_time: Option<DateTime<Utc>>,
    /// Time at which an operator released the aggregate, so that this `FAILED` row no longer blocks later events.
    pub released_time: Option<DateTime<Utc>>,
    /// Time at which texts of the row were masked ([`ErasureRepo`](super::ErasureRepo)).
    pub erased_time: Option<DateTime<Utc>>,
    /// Reason of that erasure; `None` also if a process of outbox schema 15 masked them.
    pub erased_reason: Option<String>,
    /// Time at which the row returned from the archive.
    pub restored_time: Option<DateTime<Utc>>,
}

impl OutboxRow {
    /// Partition through which the row is published.
    pub fn partition(&self) -> Partition {
        Partition::of(self.aggregate.tenant, self.aggregate.id.number())
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
/// blocked by them. The events of every other type are ordered, including those of unregistered types: a process that
/// does not know a type cannot know that its events need no order.
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
    /// Rows with smaller ids may be left out, unless a returned row needs them before it. 0: none may.
    pub from_id: i64,
    /// Ids of rows that are left out, because the relay is publishing them. They are still pending.
    pub in_flight: Vec<i64>,
}

/// Result of [`OutboxQueries::outbox_due`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Rows that may be published now, smallest id first.
    pub rows: Vec<OutboxRow>,
    /// Earliest `next_retry_time` after `now` of a pending row in the partitions.
    pub next: Option<DateTime<Utc>>,
}

/// Arguments of [`OutboxQueries::outbox_ahead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AheadQuery {
    /// Conditions of the rows. Rows with ids below `from_id` are left out.
    pub due: DueQuery,
    /// Groups whose rows are left out.
    pub except: BTreeSet<EventGroup>,
    /// Maximum number of pending rows that are read, those of other partitions and of `except` included.
    pub max_read: u32,
}

/// Result of [`OutboxQueries::outbox_ahead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Rows that may be published now, smallest id first.
    pub rows: Vec<OutboxRow>,
    /// The id from which the next search continues.
    pub next_id: i64,
    /// Whether every pending row from `from_id` on was read.
    pub is_end: bool,
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

/// Reads the outbox, for relay and consumers.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait OutboxQueries: Send {
    /// At most `limit` rows that may be published now, smallest id first, and the time at which the next row is due.
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
    /// - The rows `in_flight` MUST NOT be returned, and MUST NOT count against `limit`. Later rows of their aggregates may be
    ///   returned.
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Due, StoreError>;

    /// Ids of at most `limit` rows from `from_id` on and below `until_id` that [`OutboxQueries::outbox_due`] may return, smallest
    /// first. The cost MUST NOT depend on rows outside of this range.
    async fn outbox_due_ids(&mut self, query: &DueQuery, until_id: i64) -> Result<Vec<i64>, StoreError>;

    /// Rows of other groups than `except` that may be published now, smallest id first, although rows with smaller ids
    /// are pending.
    ///
    /// - A row MUST be one that [`OutboxQueries::outbox_due`] can return, and its id MUST NOT be below `from_id`.
    /// - An ordered row MUST NOT be returned while an earlier ordered row of its aggregate is pending: it would be
    ///   published before that row.
    /// - The rows from `from_id` up to `next_id` MUST have been searched completely, and `next_id` MUST be greater than
    ///   `from_id` unless no pending row follows.
    async fn outbox_ahead(&mut self, query: &AheadQuery) -> Result<Ahead, StoreError>;

    /// Rows of these events, in any order. Missing events are omitted.
    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError>;

    /// All rows of these aggregates, ordered by aggregate, `aggregate_seq` and id.
    async fn outbox_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<OutboxRow>, StoreError>;
}

/// Writes the outbox, for commands and the relay.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait OutboxRepo: Send {
    /// Adds rows in the order of `events`, as `NEW`, or as `RETRY` without attempts if the event has a due time. An event
    /// id that already exists MUST cause a `Conflict`; ids are compared byte by byte.
    ///
    /// An event without `aggregate_seq` gets a number. The numbers that the store assigns to the events of one aggregate
    /// MUST ascend in the order of the commits, whatever the callers lock, and in the order of `events` within one call.
    /// The first one is higher than every number of the aggregate; the caller MUST NOT give numbers of its own to an
    /// aggregate whose last number was assigned by the store.
    ///
    /// While a relay that does not know text keys is live ([`super::older_relay`]), an event of a text key MUST be refused
    /// with [`StoreError::Unavailable`] and the cause [`super::OlderRelay`]. Once an event of a text key was accepted, a store
    /// need not look for such relays again: an older version MUST NOT be started any more.
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError>;

    /// Adds rows of events of another outbox in the order of `events`, as `SENT` since their reception: no relay publishes
    /// them.
    ///
    /// - An event id that exists in the outbox, in the archive or earlier in `events` MUST be left out, whatever its content
    ///   is, also if another unit of work adds, archives or restores it at the same time.
    /// - An aggregate of which the store assigns numbers MUST NOT be among them.
    async fn receive(&mut self, events: &[ReceivedEvent]) -> Result<(), StoreError>;

    /// Locks the partitions of `holds` and returns those that `owner` still owns under the same epoch. Only rows of the
    /// returned partitions may be settled.
    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError>;

    /// Changes rows to `SENT`. MUST change only `NEW` and `RETRY` rows; returns the number of changed rows.
    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// [`OutboxRepo::fence`], then [`OutboxRepo::mark_sent`] of the events of the partitions that it returns. A store may do
    /// both in one statement: until the end of the unit of work, another relay MUST NOT be able to take these partitions.
    async fn mark_sent_if_owned(
        &mut self,
        owner: &RelayId,
        holds: &[OwnedPartition],
        confirmed: &BTreeMap<Partition, Vec<Confirmed>>,
        now: DateTime<Utc>,
    ) -> Result<PartitionSet, StoreError> {
        let ours = self.fence(owner, holds).await?;
        let settled: Vec<&Confirmed> = confirmed
            .iter()
            .filter(|(partition, _)| ours.contains(**partition))
            .flat_map(|(_, list)| list)
            .collect();
        self.mark_sent(&settled, now).await?;
        Ok(ours)
    }

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
}
