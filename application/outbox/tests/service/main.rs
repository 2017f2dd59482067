//! A service that uses only the toolkit: a lending library with its own event types and consumers.

#![allow(clippy::unwrap_used, reason = "a failed precondition ends the test")]

mod alerts;
mod archived;
mod archiving;
mod attempts;
mod audit_retention;
mod dead_rows;
mod erasing;
mod event_flows;
mod external;
mod fairness;
mod gauges;
mod idle_consumers;
mod jobs;
mod library;
mod lists;
mod log;
mod log_lines;
mod low_water_mark;
mod many_events;
mod measured;
mod operators;
mod paired_groups;
mod receiving;
mod retention;
mod slow_counts;
mod state;
mod texts;
mod versions;
mod webhooks;
mod windows_in_flight;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use handover_events::{ConsumeStatus, OutboxStatus, TenantId, Trace};
use handover_memory::MemoryUnit;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::operations::{ListedEvent, Operator, find_event};
use handover_outbox::ports::*;
use handover_outbox::{EventSpec, MASK};
use tracing::info_span;

use library::{Library, QUEUE, event_id, eventually};

struct Loans;

/// Fails until the flag is set.
struct Unavailable(AtomicBool);

#[derive(serde::Deserialize)]
struct Lent {
    reader: i64,
}

const EVENT_TYPES: &[&str] = &["BOOK_LENT", "LOAN_CREATED", "LOAN_EXPIRED", "REMINDER"];

/// Appends a note for each event. Each note has a new id, so an event that is applied twice has two notes.
async fn note_all(outbox: &mut dyn OutboxUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
    for event in events {
        let lent: Lent = event.payload()?;
        let before = outbox.outbox_about(std::slice::from_ref(&event.row.aggregate)).await?;
        let notes = format!("{}-noted", event.row.event_id);
        let nth = before.iter().filter(|row| row.event_id.as_str().starts_with(&notes)).count() + 1;
        let note = NewEvent {
            event_id: event_id(&format!("{notes}-{nth}")),
            event_type: "LOAN_NOTED".to_owned(),
            aggregate: event.row.aggregate.clone(),
            aggregate_seq: Some(event.row.aggregate_seq),
            payload: format!(r#"{{"reader":{}}}"#, lent.reader),
            metadata: EventMetadata::default(),
            occurred_at: event.row.create_time,
            max_retry_count: 0,
            idle_consumers: IdleConsumers::default(),
            routing_key: None,
            due: None,
        };
        outbox.append(&[note]).await?;
    }
    Ok(events.iter().map(|_| Applied::result("noted")).collect())
}

#[async_trait]
impl Handler<MemoryUnit> for Loans {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        EVENT_TYPES.to_vec()
    }

    async fn apply(&self, unit: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        note_all(unit.outbox(), events).await
    }
}

#[async_trait]
impl Handler<MemoryUnit> for Unavailable {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        EVENT_TYPES.to_vec()
    }

    async fn apply(&self, unit: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        if self.0.load(Ordering::Relaxed) {
            return note_all(unit.outbox(), events).await;
        }
        Err(HandlerError::Recoverable(format!("catalogue refused {}", events[0].row.event_id)))
    }
}

/// A handler like [`Loans`], for a unit of work that has only an outbox.
struct OutboxOnly;

#[async_trait]
impl Handler<dyn UnitOfWork> for OutboxOnly {
    fn name(&self) -> &str {
        "outbox-only"
    }

    fn event_types(&self) -> Vec<&str> {
        EVENT_TYPES.to_vec()
    }

    async fn apply(
        &self,
        unit: &mut (dyn UnitOfWork + 'static),
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        note_all(unit.outbox(), events).await
    }
}

fn loans() -> Subscriber<MemoryUnit> {
    Subscriber::new(QUEUE, Arc::new(Loans))
}

fn lent() -> EventSpec {
    EventSpec::new("BOOK_LENT", "book.lent")
}

/// No queue is bound to the routing key of notes: the broker returns each note, its row becomes FAILED and stays in the
/// outbox, where the tests count the rows.
fn noted() -> EventSpec {
    EventSpec::new("LOAN_NOTED", "loan.noted").unordered()
}

#[tokio::test(start_paused = true)]
async fn custom_event_types_are_applied_once_and_in_order() {
    let library = Library::sending([lent(), noted()]).with(&loans());
    library.prepare().await;
    let lent = |id: &str, seq| library.event(id, "BOOK_LENT", 7, seq, r#"{"reader":3}"#);
    library.commit(vec![lent("first", 1), lent("second", 2)]).await;
    library.deliver("second").await;
    library.start();
    let notes = ["first-noted-1", "second-noted-1"];
    eventually(async || library.ids("LOAN_NOTED").await == notes && library.is_quiet().await).await;
    library.redrive("first").await;
    assert_eq!(library.ids("LOAN_NOTED").await, notes, "the duplicate has no effect");
    assert_eq!(library.consumed("loans", "first").await, Some((ConsumeStatus::Success, 1)));
    let queues = library.outbox.topology().queues.iter().map(|queue| queue.name.as_str());
    assert_eq!(queues.collect::<Vec<_>>(), [QUEUE, "library.dead-letters"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_payload_is_dead_lettered_and_unregistered_type_is_failed() {
    let library = Library::sending([lent(), noted()]).with(&loans()).started().await;
    let events = [
        library.event("broken", "BOOK_LENT", 1, 1, r#"{"reader":"ann"}"#),
        library.event("burnt", "BOOK_BURNT", 2, 1, "{}"),
        library.event("fine", "BOOK_LENT", 3, 1, r#"{"reader":3}"#),
    ];
    library.commit(events.to_vec()).await;
    eventually(async || library.ids("LOAN_NOTED").await == ["fine-noted-1"]).await;
    eventually(async || library.dead_letters().await.len() == 1).await;
    let dead_letter = library.dead_letters().await.remove(0);
    assert_eq!((dead_letter.queue.as_str(), dead_letter.key.as_str()), (QUEUE, "broken"));
    assert!(dead_letter.reason.contains("invalid payload of BOOK_LENT"), "{}", dead_letter.reason);
    let status = library.consumed("loans", "broken").await.map(|(status, _)| status);
    assert_eq!(status, Some(ConsumeStatus::Dead));
    eventually(async || library.row("burnt").await.status == OutboxStatus::Failed).await;
    let error = library.row("burnt").await.last_error.unwrap_or_default();
    assert_eq!(error, "publishing failed: event type not supported: BOOK_BURNT");
}

/// Event type names belong to the service: LOAN_CREATED can have any meaning and payload.
#[tokio::test(start_paused = true)]
async fn event_type_can_reuse_a_name_of_another_service() {
    let ordered = EventSpec::new("LOAN_CREATED", "book.ordered");
    let library = Library::sending([ordered, noted()]).with(&loans()).started().await;
    let ordered = |id: &str, seq| library.event(id, "LOAN_CREATED", 7, seq, r#"{"reader":3,"loanId":"A-1"}"#);
    library.commit(vec![ordered("first", 1), ordered("second", 2)]).await;
    eventually(async || library.ids("LOAN_NOTED").await == ["first-noted-1", "second-noted-1"]).await;
    library.redrive("second").await;
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 2, "the duplicate has no effect");
    assert_eq!(library.consumed("loans", "second").await, Some((ConsumeStatus::Success, 1)));
    assert_eq!(library.dead_letters().await, []);
}

/// The service also defines which types are ordered: LOAN_EXPIRED waits for earlier events like any other type, and
/// REMINDER does not if the service registers it as unordered.
#[tokio::test(start_paused = true)]
async fn registration_decides_whether_an_event_type_is_ordered() {
    let late = EventSpec::new("LOAN_EXPIRED", "book.late");
    let reminder = EventSpec::new("REMINDER", "book.reminder").unordered();
    let library = Library::sending([lent(), late, reminder, noted()]).with(&loans());
    library.prepare().await;
    let of = |id: &str, event_type: &str, seq| library.event(id, event_type, 7, seq, r#"{"reader":3}"#);
    let now = library.outbox.now();
    let mut unit = library.tx.begin().await.unwrap();
    let events = [of("lent", "BOOK_LENT", 1), of("late", "LOAN_EXPIRED", 2), of("reminder", "REMINDER", 3)];
    unit.outbox().append(&events).await.unwrap();
    let waits = FailedPublish {
        event_id: event_id("lent"),
        status: OutboxStatus::Retry,
        retry_count: 0,
        next_retry_time: Some(now + chrono::TimeDelta::seconds(30)),
        error: "broker unreachable".into(),
    };
    assert_eq!(unit.outbox().mark_failed(&[waits], now).await.unwrap(), 1);
    unit.commit().await.unwrap();
    library.start();
    eventually(async || library.ids("LOAN_NOTED").await == ["reminder-noted-1"]).await;
    assert_eq!(library.row("late").await.status, OutboxStatus::New);
    eventually(async || {
        library.ids("LOAN_NOTED").await == ["reminder-noted-1", "lent-noted-1", "late-noted-1"]
    })
    .await;
    assert_eq!(library.dead_letters().await, []);
}

#[tokio::test(start_paused = true)]
async fn handler_runs_in_a_unit_of_work_with_only_an_outbox() {
    let outbox_only = Subscriber::new(QUEUE, Arc::new(OutboxOnly));
    let library = Library::sending([lent(), noted()]).with_outbox_consumer(&outbox_only).started().await;
    library.commit(vec![library.event("lent", "BOOK_LENT", 7, 1, r#"{"reader":3}"#)]).await;
    eventually(async || library.ids("LOAN_NOTED").await == ["lent-noted-1"]).await;
    library.redrive("lent").await;
    assert_eq!(library.ids("LOAN_NOTED").await, ["lent-noted-1"], "the duplicate adds no note");
    assert_eq!(library.consumed("outbox-only", "lent").await, Some((ConsumeStatus::Success, 1)));
}

#[tokio::test(start_paused = true)]
async fn operator_without_personal_data_access_sees_only_declared_payload_fields() {
    let library = Library::sending([lent().visible(&["bookId"])]);
    let payload = r#"{"bookId":7,"reader":"ann","loanId":1}"#;
    library.commit(vec![library.event("e-1", "BOOK_LENT", 7, 1, payload)]).await;
    let trace = Trace { trace_id: "trace-1".to_owned(), traceparent: None };
    let operator = |sees_personal_data| Operator {
        name: "user:9".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: false,
        sees_personal_data,
        trace: trace.clone(),
    };
    let shown = |event: ListedEvent| event.row.payload;
    let masked = find_event(&library.outbox, &operator(false), &event_id("e-1")).await.map(shown).unwrap();
    assert_eq!(masked, format!(r#"{{"bookId":7,"reader":"{MASK}","loanId":"{MASK}"}}"#));
    let whole = find_event(&library.outbox, &operator(true), &event_id("e-1")).await.map(shown).unwrap();
    assert_eq!(whole, payload);
}

/// Rows of the time before the set was closed, and their messages, contain other values.
#[tokio::test(start_paused = true)]
async fn value_outside_a_closed_field_is_replaced_in_messages_and_views_and_stays_in_the_row() {
    const COPIES: &str = "library.copies";
    let copies = Subscriber::new(COPIES, Arc::new(OutboxOnly));
    let lent = lent().closed("shelf", &["red", "blue"], "other");
    let library = Library::sending([lent, noted()]).with_outbox_consumer(&copies).with(&loans());
    library.prepare().await;
    let payload = |shelf: &str| format!(r#"{{"reader":3,"at":[{{"shelf":{shelf}}}]}}"#);
    let raw = r#""4111111111111111""#;
    let shelves = [raw, r#""red""#, "4111111111111111", "null", r#"["red"]"#];
    for (book, shelf) in (1..).zip(shelves) {
        let event = library.event(&format!("e-{book}"), "BOOK_LENT", book, 1, &payload(shelf));
        library.commit(vec![event]).await;
    }
    // The message of an older process contains the value.
    library.deliver("e-1").await;
    library.start();
    let ids: Vec<String> = (1..=shelves.len()).map(|book| format!("e-{book}-noted-1")).collect();
    eventually(async || {
        library.is_settled_at(QUEUE).await && {
            let mut noted = library.ids("LOAN_NOTED").await;
            noted.sort();
            noted == ids
        }
    })
    .await;
    assert_eq!(library.dead_letters().await, []);
    let mut published: Vec<String> = library.bodies_in(COPIES, shelves.len()).await;
    published.sort();
    for (body, shelf) in published.iter().zip([r#""other""#, r#""red""#, r#""other""#, "null", r#""other""#])
    {
        assert!(body.contains(&payload(shelf)), "{body}");
    }
    assert_eq!(library.row("e-1").await.payload, payload(raw), "the row is not changed");
    let operator = Operator {
        name: "user:9".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: false,
        sees_personal_data: true,
        trace: Trace { trace_id: "trace-1".to_owned(), traceparent: None },
    };
    let shown = find_event(&library.outbox, &operator, &event_id("e-1")).await.unwrap();
    assert_eq!(shown.row.payload, payload(r#""other""#));
}

#[tokio::test(start_paused = true)]
async fn applied_event_is_logged_in_the_span_of_its_type() {
    let lent = lent().logged_in(|id| info_span!("book", bookId = id.number()));
    let library = Library::sending([lent, noted()]).with(&loans()).started().await;
    library.commit(vec![library.event("lent", "BOOK_LENT", 7, 1, r#"{"reader":3}"#)]).await;
    eventually(async || library.ids("LOAN_NOTED").await == ["lent-noted-1"] && library.is_quiet().await)
        .await;
    let consumed = log::lines().into_iter().filter(|line| line.contains("Message consumed successfully"));
    let starts: Vec<bool> = consumed.map(|line| line.starts_with("bookId=7 ")).collect();
    assert_eq!(starts, [true], "{:#?}", log::lines());
}

#[tokio::test(start_paused = true)]
async fn consumer_that_fails_for_ten_aggregates_alerts_once_and_logs_when_it_resumes() {
    let handler = Arc::new(Unavailable(AtomicBool::new(false)));
    let subscriber = Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>);
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    let lent = |n: i64| library.event(&format!("e-{n}"), "BOOK_LENT", n, 1, r#"{"reader":3}"#);
    library.commit((1..=12).map(lent).collect()).await;
    let logged = |part: &str| log::lines().iter().filter(|line| line.contains(part)).count();
    eventually(async || logged("[loans] [ALERT] events of 10 aggregates in a row failed") == 1).await;
    handler.0.store(true, Ordering::Relaxed);
    eventually(async || library.ids("LOAN_NOTED").await.len() == 12 && library.is_quiet().await).await;
    assert_eq!((logged("[ALERT] events"), logged("consumption resumed")), (1, 1), "{:#?}", log::lines());
    assert_eq!(library.dead_letters().await, []);
    assert_eq!(library.consumed("loans", "e-1").await, Some((ConsumeStatus::Success, 1)));
}

#[test]
fn kind_of_an_error_does_not_contain_its_values() {
    let kind = |why: &str| HandlerError::Recoverable(why.to_owned()).kind();
    assert_eq!(kind("order 17 of user 3 is locked"), kind("order 180 of user 22 is locked"));
    assert_eq!(kind("no row for 0192f3c1-77aa at 10:30"), kind("no row for 5d2e at 11:00"));
    assert_ne!(kind("order 17 is locked"), kind("order 17 is unpaid"));
    let corrupt = |key: &str| StoreError::Corrupt {
        table: "books",
        column: "status",
        key: key.to_owned(),
        why: "unknown status".to_owned(),
    };
    assert_eq!(corrupt("id 1").kind(), corrupt("number A").kind());
}
