//! Sample values for tests: simple, valid, and the same in every run. Other values are set by struct update:
//! `NewEvent { occurred_at: later(5), ..event("e-1", 7, 1) }`.
//!
//! The events are those of a lending library, because the toolkit is independent of event types and aggregates.

pub mod webhooks;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{
    AggregateRef, ConsumeStatus, EventId, HistoryKind, OutboxStatus, Partition, PartitionSet, TenantId,
};
use handover_outbox::ports::{
    AuditEntry, Confirmed, ConsumeRecord, Consumed, Consumption, DeadLetter, DeadLetterStatus, Decision,
    DueQuery, EventMetadata, Expected, FailedPublish, HistoryEntry, IdleConsumers, Message, NewEvent,
    OnFailed, Outgoing, PublishOutcome, Redrive, RelayId, Route, UnorderedTypes,
};

/// Aggregate type of the sample events.
pub const BOOK: &str = "Book";
/// Sample event type: a book was lent; the type of [`event`].
pub const BOOK_LENT: &str = "BOOK_LENT";
/// Sample event type: a book was added to the library.
pub const BOOK_ADDED: &str = "BOOK_ADDED";
/// Sample event type: a book was returned to the library.
pub const BOOK_RETURNED: &str = "BOOK_RETURNED";
/// Sample event type that is excluded from the order of its aggregate: see [`unordered`].
pub const BOOK_OVERDUE: &str = "BOOK_OVERDUE";

/// A text with special characters, to check that texts are stored unchanged.
pub const SPECIAL_CHARACTERS: &str = "二手相机 “Zenit” 📷 it's \"50%\" off \\ ; -- é";

/// Default time of the samples, with a fraction of 123,456 microseconds.
pub fn start() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_770_201_000_123_456).expect("a moment within range")
}

/// [`start`] plus this number of seconds, which may be negative.
pub fn later(seconds: i64) -> DateTime<Utc> {
    start() + TimeDelta::seconds(seconds)
}

/// The tenant with this number.
pub fn tenant(number: i64) -> TenantId {
    number.try_into().expect("a valid id")
}

/// The event id with this text; panics if the text is not valid.
pub fn event_id(text: &str) -> EventId {
    text.parse().expect("a valid event id")
}

/// Id of a relay with this name.
pub fn relay(name: &str) -> RelayId {
    RelayId(name.to_owned())
}

/// A sample aggregate: the book of tenant 1 with this id.
pub fn aggregate(id: i64) -> AggregateRef {
    AggregateRef { tenant: TenantId::DEFAULT, kind: BOOK.to_owned(), id: id.into() }
}

/// The partition of [`aggregate`].
pub fn partition(id: i64) -> Partition {
    Partition::of(TenantId::DEFAULT, id)
}

/// A [`BOOK_LENT`] event of a book of tenant 1.
pub fn event(id: &str, book: i64, seq: i64) -> NewEvent {
    NewEvent {
        event_id: event_id(id),
        event_type: BOOK_LENT.to_owned(),
        aggregate: aggregate(book),
        aggregate_seq: Some(seq),
        payload: format!("{{\"bookId\":{book},\"deposit\":88.50}}"),
        metadata: EventMetadata { trace_id: Some("trace-1".into()), ..EventMetadata::default() },
        occurred_at: start(),
        max_retry_count: 4,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

/// The sample event types that are excluded from the order of their aggregate.
pub fn unordered() -> UnorderedTypes {
    [BOOK_OVERDUE].into_iter().collect()
}

/// Query for at most 100 rows that are due at this time, in all partitions.
pub fn due_at(now: DateTime<Utc>) -> DueQuery {
    DueQuery {
        partitions: PartitionSet::ALL,
        now,
        on_failed: OnFailed::Continue,
        unordered: unordered(),
        limit: 100,
        from_id: 0,
        in_flight: Vec::new(),
    }
}

/// The same event with another type.
pub fn of_type(event_type: &str, event: NewEvent) -> NewEvent {
    NewEvent { event_type: event_type.to_owned(), ..event }
}

/// The publisher confirm of an event, created without a broker; `mark_sent` requires one.
pub fn confirmed(id: &str) -> Confirmed {
    match Outgoing::new(event_id(id), "book.lent".into(), Message::default()).confirmed() {
        PublishOutcome::Confirmed(proof) => proof,
        PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => {
            unreachable!("`Outgoing::confirmed` returns `Confirmed`")
        }
    }
}

/// A failed publish that is retried at `due`, or immediately if `due` is `None`.
pub fn to_retry(id: &str, due: Option<DateTime<Utc>>) -> FailedPublish {
    FailedPublish {
        event_id: event_id(id),
        status: OutboxStatus::Retry,
        retry_count: 1,
        next_retry_time: due,
        error: "publishing failed: no queue matches".into(),
    }
}

/// A failed publish attempt after which the event is `FAILED`, so it is not attempted again.
pub fn to_failed(id: &str) -> FailedPublish {
    FailedPublish {
        status: OutboxStatus::Failed,
        retry_count: 4,
        next_retry_time: None,
        ..to_retry(id, None)
    }
}

/// A redrive of a row that becomes due at this time.
pub fn redrive(id: &str, due: DateTime<Utc>) -> Redrive {
    Redrive { event_id: event_id(id), due }
}

/// A history entry of an event of tenant 1: its first publish attempt failed.
pub fn history_entry(id: &str) -> HistoryEntry {
    HistoryEntry {
        tenant: TenantId::DEFAULT,
        event_id: event_id(id),
        kind: HistoryKind::Retry,
        consumer: None,
        attempts: 1,
        detail: Some("publishing failed: no queue matches".into()),
        at: start(),
    }
}

/// The first consume-log record of a consumer for this event: the event was applied.
pub fn consumption(consumer: &str, event: &NewEvent) -> Consumption {
    Consumption {
        consumer: consumer.to_owned(),
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        aggregate: event.aggregate.clone(),
        aggregate_seq: event.aggregate_seq.unwrap_or_default(),
        expected: Expected::Absent,
        status: ConsumeStatus::Success,
        attempts: 1,
        next_retry_time: None,
        lease_until: None,
        error_message: None,
        idempotency_key: None,
        consume_result: None,
        payload_hash: "ab".repeat(32),
        trace_id: "trace-1".into(),
        cost_ms: 3,
        consume_time: start(),
    }
}

/// The record as the store returns it after it was written.
pub fn as_recorded(written: &Consumption) -> ConsumeRecord {
    ConsumeRecord {
        status: written.status,
        attempts: written.attempts,
        next_retry_time: written.next_retry_time,
        lease_until: written.lease_until,
        error_message: written.error_message.clone(),
        consume_time: written.consume_time,
    }
}

/// The record as the queries of operators return it.
pub fn as_consumed(written: &Consumption) -> Consumed {
    Consumed {
        consumer: written.consumer.clone(),
        event_id: written.event_id.clone(),
        event_type: written.event_type.clone(),
        aggregate: written.aggregate.clone(),
        aggregate_seq: written.aggregate_seq,
        record: as_recorded(written),
        idempotency_key: written.idempotency_key.clone(),
        consume_result: written.consume_result.clone(),
        payload_hash: written.payload_hash.clone(),
        trace_id: written.trace_id.clone(),
        cost_ms: written.cost_ms,
    }
}

/// A decision about an open dead letter.
pub fn decision(queue: &str, key: &str, to: DeadLetterStatus) -> Decision {
    Decision {
        queue: queue.to_owned(),
        key: key.to_owned(),
        from: vec![DeadLetterStatus::Open],
        to,
        note: None,
        at: start(),
    }
}

/// An action of an operator of tenant 1.
pub fn audit_entry(action: &str) -> AuditEntry {
    AuditEntry {
        tenant: TenantId::DEFAULT,
        actor: "user:9".into(),
        action: action.to_owned(),
        selection: "{\"eventIds\":[\"e-1\"]}".into(),
        matched: 2,
        changed: 1,
        reason: Some("the cause of the failure is fixed".into()),
        trace_id: "trace-1".into(),
        at: start(),
    }
}

/// An open dead letter of tenant 1.
pub fn dead_letter(queue: &str, key: &str) -> DeadLetter {
    DeadLetter {
        queue: queue.to_owned(),
        key: key.to_owned(),
        tenant: TenantId::DEFAULT,
        event_type: Some(BOOK_LENT.into()),
        trace_id: Some("trace-1".into()),
        body: "{}".into(),
        reason: "consuming failed".into(),
        died_at: start(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    }
}

/// Message bodies from untrusted publishers, with names: an adapter MUST accept all of them.
pub fn untrusted_bodies() -> Vec<(&'static str, String)> {
    let controls: String = (0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32).collect();
    vec![
        ("empty", String::new()),
        ("NUL", "{\"title\":\"a\0b\"}".into()),
        ("only NUL", "\0".into()),
        ("NUL as an escape", r#"{"title":"\u0000"}"#.into()),
        ("100 KB of NUL", "\0".repeat(100_000)),
        ("escaped bytes that are not UTF-8", "\\xff\\x00 \u{fffd}\u{feff}".into()),
        ("control characters", controls),
        ("four-byte characters", "📷".repeat(40_000)),
        ("not a character", "\u{ffff}\u{10ffff}".into()),
        ("lone surrogates", r#"{"title":"\ud800 \udfff"}"#.into()),
        ("deep nesting", "[".repeat(100_000)),
        ("duplicate keys", r#"{"eventId":"a","eventId":"b","payload":{"x":1,"x":2}}"#.into()),
        ("huge numbers", format!(r#"{{"aggregateId":1e999999,"payload":{}}}"#, "9".repeat(50_000))),
        ("200 KB of two-byte characters", "é".repeat(100_000)),
    ]
}

/// A message to be published, with every property set.
pub fn outgoing(id: &str, routing_key: &str) -> Outgoing {
    outgoing_with_route(event_id(id), Route::Topic(routing_key.to_owned()), message(id))
}

/// A message with this destination.
pub fn outgoing_with_route(event: EventId, route: Route, message: Message) -> Outgoing {
    match route {
        Route::Topic(key) => Outgoing::new(event, key, message),
        Route::Queue(queue) => Outgoing::to_queue(event, queue, message),
    }
}

/// A message with every property set.
pub fn message(id: &str) -> Message {
    let headers = [("tenantId", "1"), ("aggregateType", BOOK), ("aggregateId", "7")];
    Message {
        message_id: Some(id.to_owned()),
        kind: Some(BOOK_LENT.into()),
        correlation_id: Some("trace-1".into()),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: format!("{{\"eventId\":\"{id}\"}}"),
    }
}
