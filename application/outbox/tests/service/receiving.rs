//! A service that applies the events of another service's outbox. The other service is only its messages.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{ConsumeStatus, OutboxStatus, TenantId};
use handover_memory::MemoryUnit;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::{EventSpec, OwnSettings};

use crate::library::{Library, QUEUE, event_id, eventually};
use crate::versions::{notes_of, replay, returned, try_replay};
use crate::{lent, loans, log, note_all, noted};

const EXCHANGE: &str = "branch.events";
const COPIES: &str = "library.copies";

/// Fails for the events of book 7 until the flag is set.
struct FailsUntil(&'static str, AtomicBool);

#[async_trait]
impl Handler<MemoryUnit> for FailsUntil {
    fn name(&self) -> &str {
        self.0
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, unit: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let is_book_7 = |event: &Event| event.row.aggregate.id == 7;
        if events.iter().any(is_book_7) && !self.1.load(Ordering::Relaxed) {
            return Err(HandlerError::Recoverable("the catalogue is closed".to_owned()));
        }
        note_all(unit.outbox(), events).await
    }
}

/// A service that receives what the branch publishes, and publishes events about shelves.
fn receiving(subscriber: &Subscriber<MemoryUnit>) -> Library {
    Library::sending([lent().about("Book", "bookId"), own(), noted()]).receiving(subscriber, EXCHANGE)
}

fn own() -> EventSpec {
    EventSpec::new("SHELF_MOVED", "shelf.moved").about("Shelf", "shelfId")
}

/// A message of the other service.
fn message(id: &str, book: i64, seq: i64) -> Message {
    message_about("Book", id, book, seq)
}

fn message_about(aggregate_type: &str, id: &str, number: i64, seq: i64) -> Message {
    let headers = [
        ("tenantId", TenantId::DEFAULT.to_string()),
        ("aggregateType", aggregate_type.to_owned()),
        ("aggregateId", number.to_string()),
        ("aggregateSeq", seq.to_string()),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ("requestId", "request-1".to_owned()),
    ];
    Message {
        message_id: Some(id.to_owned()),
        kind: Some("BOOK_LENT".to_owned()),
        correlation_id: Some("trace-1".to_owned()),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
        body: format!(
            r#"{{"eventId":"{id}","eventType":"BOOK_LENT","aggregateType":"{aggregate_type}","aggregateId":{number},"occurredAt":"2026-02-04T10:29:00Z","traceId":"trace-1","payload":{{"reader":3}}}}"#
        ),
    }
}

fn of_type(event_type: &str, message: Message) -> Message {
    let body = message.body.replace("BOOK_LENT", event_type);
    Message { kind: Some(event_type.to_owned()), body, ..message }
}

fn without_header(header: &str, message: Message) -> Message {
    let mut message = message;
    message.headers.remove(header);
    message
}

async fn status(library: &Library, consumer: &str, id: &str) -> Option<ConsumeStatus> {
    library.consumed(consumer, id).await.map(|(status, _)| status)
}

/// The events about which notes exist, in the order of the notes.
async fn notes(library: &Library) -> Vec<String> {
    library.ids("LOAN_NOTED").await
}

#[tokio::test(start_paused = true)]
async fn received_event_is_row_that_was_sent_and_is_applied_once() {
    let library = receiving(&loans()).started().await;
    let mut lent = message("lent", 7, 5);
    lent.headers.insert("tenantId".to_owned(), "2".to_owned());
    for _ in 0..3 {
        library.inject(lent.clone());
    }
    eventually(async || notes(&library).await == ["lent-noted-1"] && library.is_quiet().await).await;
    library.inject(lent);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(notes(&library).await, ["lent-noted-1"], "a repeated message has no effect");
    let row = library.row("lent").await;
    assert_eq!((row.status, row.aggregate_seq), (OutboxStatus::Sent, 5));
    assert_eq!(row.aggregate.tenant, TenantId::try_from(2).unwrap());
    assert_eq!((row.trace_id(), row.metadata.request_id.as_deref()), ("trace-1", Some("request-1")));
    assert_eq!(row.create_time, "2026-02-04T10:29:00Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap());
    assert!(row.sent_time.is_some_and(|sent| sent >= row.create_time), "{row:?}");
    assert_eq!(library.dead_letters().await, []);
}

#[tokio::test(start_paused = true)]
async fn later_event_waits_for_earlier_one_that_is_retried() {
    let handler = Arc::new(FailsUntil("loans", AtomicBool::new(false)));
    let library = receiving(&Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>)).started().await;
    for (id, book, seq) in [("a", 7, 1), ("b", 7, 2), ("other", 8, 1), ("c", 7, 3)] {
        library.inject(message(id, book, seq));
    }
    eventually(async || notes(&library).await == ["other-noted-1"]).await;
    eventually(async || status(&library, "loans", "a").await == Some(ConsumeStatus::Failed)).await;
    handler.1.store(true, Ordering::Relaxed);
    let all = ["other-noted-1", "a-noted-1", "b-noted-1", "c-noted-1"];
    eventually(async || notes(&library).await == all && library.is_quiet().await).await;
    assert_eq!(library.dead_letters().await, []);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_of_received_event_is_replayed_and_later_events_follow() {
    let handler = Arc::new(FailsUntil("loans", AtomicBool::new(false)));
    let library = receiving(&Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>)).started().await;
    library.inject(message("a", 7, 1));
    eventually(async || library.dead_letters().await.len() == 1).await;
    let dead_letter = library.dead_letters().await.remove(0);
    assert_eq!((dead_letter.queue.as_str(), dead_letter.key.as_str()), (QUEUE, "a"));
    assert!(dead_letter.reason.contains("the catalogue is closed"), "{}", dead_letter.reason);
    handler.1.store(true, Ordering::Relaxed);
    replay(&library, &["a"]).await;
    eventually(async || notes(&library).await == ["a-noted-1"]).await;
}

/// An operator can send the row again: the queue is bound to the exchange of its own outbox as well.
#[tokio::test(start_paused = true)]
async fn redriven_row_of_received_event_reaches_its_consumer_as_duplicate() {
    let library = receiving(&loans()).started().await;
    library.inject(message("lent", 7, 1));
    eventually(async || notes(&library).await == ["lent-noted-1"] && library.is_quiet().await).await;
    library.redrive("lent").await;
    assert_eq!(notes(&library).await, ["lent-noted-1"]);
}

#[tokio::test(start_paused = true)]
async fn two_consumers_of_one_event_share_its_row_and_both_apply_it() {
    let copies = Arc::new(FailsUntil("copies", AtomicBool::new(true)));
    let library = receiving(&loans()).receiving(&Subscriber::new(COPIES, copies), EXCHANGE).started().await;
    library.inject(message("lent", 7, 1));
    assert!(library.broker.inject(COPIES, message("lent", 7, 1)));
    eventually(async || {
        notes(&library).await == ["lent-noted-1", "lent-noted-2"] && library.is_quiet().await
    })
    .await;
    for consumer in ["loans", "copies"] {
        assert_eq!(library.consumed(consumer, "lent").await, Some((ConsumeStatus::Success, 1)));
    }
    assert_eq!(library.ids("BOOK_LENT").await, ["lent"]);
}

/// Needs 5 s per event, and records their order.
struct Slow(Mutex<Vec<String>>);

#[async_trait]
impl Handler<MemoryUnit> for Slow {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT", "BOOK_RETURNED"]
    }

    #[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
    async fn apply(&self, _: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        for event in events {
            tokio::time::sleep(Duration::from_secs(5)).await;
            self.0.lock().unwrap().push(event.row.event_id.to_string());
        }
        Ok(events.iter().map(|_| Applied::default()).collect())
    }
}

/// The row of the later event exists because another consumer has received it; that of the earlier one does not exist yet.
#[tokio::test(start_paused = true)]
async fn event_that_another_consumer_has_received_waits_for_the_messages_in_the_queue() {
    let handler = Arc::new(Slow(Mutex::default()));
    let attempt_timeout = Some(Duration::from_secs(60));
    let prefetch = NonZeroU16::new(1);
    let settings = OwnSettings { prefetch, attempt_timeout, ..OwnSettings::default() };
    let slow = Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>).with_settings(settings);
    let copies = Arc::new(FailsUntil("copies", AtomicBool::new(true)));
    let about_books = [lent(), returned()].map(|event| event.about("Book", "bookId"));
    let library = Library::sending(about_books.into_iter().chain([own(), noted()]))
        .receiving(&slow, EXCHANGE)
        .receiving(&Subscriber::new(COPIES, copies), EXCHANGE)
        .started()
        .await;
    library.outbox.sleep(Duration::from_secs(1)).await;
    for book in 100..140 {
        library.inject(message(&format!("of-{book}"), book, 1));
    }
    library.inject(of_type("BOOK_RETURNED", message("a", 8, 1)));
    library.inject(message("b", 8, 2));
    assert!(library.broker.inject(COPIES, message("b", 8, 2)));
    eventually(async || status(&library, "copies", "b").await == Some(ConsumeStatus::Success)).await;
    library.outbox.sleep(Duration::from_secs(180)).await;
    eventually(async || library.is_quiet().await).await;
    let applied = handler.0.lock().unwrap();
    assert_eq!((applied.len(), &applied[40..]), (42, &["a".to_owned(), "b".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn message_that_cannot_be_received_is_dead_lettered_with_its_reason() {
    let library = receiving(&loans()).started().await;
    let garbled = Message { body: "{".to_owned(), ..message("garbled", 1, 1) };
    let no_number = |name: &str| {
        let mut message = message(name, 4, 1);
        message.headers.insert("aggregateSeq".to_owned(), "first".to_owned());
        message
    };
    library.inject(garbled);
    library.inject(without_header("aggregateSeq", message("unplaced", 2, 1)));
    library.inject(no_number("misplaced"));
    library.inject(message_about("Shelf", "foreign", 3, 1));
    library.inject(message("lent", 7, 1));
    eventually(async || library.dead_letters().await.len() == 4 && notes(&library).await == ["lent-noted-1"])
        .await;
    let dead_letters = library.dead_letters().await;
    let reasons: Vec<&str> = dead_letters.iter().map(|it| it.reason.as_str()).collect();
    for part in [
        "event unplaced of another outbox was not received: the header aggregateSeq is missing",
        "event misplaced of another outbox was not received: the header aggregateSeq is \"first\", which is no number",
        "event foreign of another outbox was not received: this outbox publishes events about Shelf itself",
    ] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part} is not in {reasons:#?}");
    }
    assert_eq!(library.ids("BOOK_LENT").await, ["lent"], "no row of a message that was not received");
    let unplaced = dead_letters.iter().find(|it| it.reason.contains("event unplaced")).unwrap();
    let refused = try_replay(&library, &[&unplaced.key]).await.refused;
    assert_eq!(
        refused.into_iter().map(|it| it.why).collect::<Vec<_>>(),
        [
            "the message was not received, so this outbox has no event to send: redrive the event in the service that publishes to \
          branch.events, then discard the dead letter"
        ]
    );
    // The other service sends its event again, with its position.
    library.inject(message("unplaced", 2, 1));
    eventually(async || notes(&library).await == ["lent-noted-1", "unplaced-noted-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn other_content_under_known_event_id_is_dead_lettered() {
    let library = receiving(&loans()).started().await;
    library.inject(message("lent", 7, 1));
    eventually(async || notes(&library).await == ["lent-noted-1"]).await;
    library.inject(message("lent", 8, 1));
    eventually(async || library.dead_letters().await.len() == 1).await;
    let reason = library.dead_letters().await.remove(0).reason;
    assert!(reason.contains("the outbox row of event lent has different content"), "{reason}");
    assert_eq!(notes(&library).await, ["lent-noted-1"]);
}

/// The event is received, so that a process of a newer version can apply it.
#[tokio::test(start_paused = true)]
async fn event_of_type_that_no_process_knows_is_dead_lettered_and_its_row_stays() {
    let library = receiving(&loans()).started().await;
    library.inject(of_type("BOOK_BURNT", message("burnt", 7, 1)));
    eventually(async || library.dead_letters().await.len() == 1).await;
    let dead_letter = library.dead_letters().await.remove(0);
    assert_eq!((dead_letter.key.as_str(), library.row("burnt").await.status), ("burnt", OutboxStatus::Sent));
    assert!(dead_letter.reason.contains("event type not supported: BOOK_BURNT"), "{}", dead_letter.reason);
}

/// Both processes receive messages of the type that only the newer one knows.
#[tokio::test(start_paused = true)]
async fn rolling_deployment_applies_each_received_event_once_and_in_order() {
    let old = receiving(&notes_of(&["BOOK_LENT"])).started().await;
    let events = [lent().about("Book", "bookId"), returned().about("Book", "bookId"), own(), noted()];
    let notes = notes_of(&["BOOK_LENT", "BOOK_RETURNED"]);
    let new = old.another_process(events).receiving(&notes, EXCHANGE).started().await;
    let mut ids = Vec::new();
    for seq in 1..=10 {
        for book in 1..=4 {
            let event_type = if (seq + book) % 2 == 0 { "BOOK_RETURNED" } else { "BOOK_LENT" };
            let id = format!("{book}-{seq}");
            new.inject(of_type(event_type, message(&id, book, seq)));
            ids.push(id);
        }
        new.outbox.sleep(Duration::from_millis(150)).await;
    }
    eventually(async || new.noted().await.len() == ids.len() && new.is_quiet().await).await;
    let noted = new.noted().await;
    for book in 1..=4 {
        let is_of_book = |id: &&String| id.starts_with(&format!("{book}-"));
        let applied: Vec<_> = noted.iter().filter(is_of_book).collect();
        assert_eq!(applied, ids.iter().filter(is_of_book).collect::<Vec<_>>());
    }
    for id in &ids {
        assert_eq!(new.row(id).await.status, OutboxStatus::Sent);
        assert_eq!(new.consumed("loans", id).await, Some((ConsumeStatus::Success, 1)), "{id}");
    }
    assert_eq!(new.dead_letters().await, []);
    let left = log::lines().iter().filter(|line| line.contains("event left to a process")).count();
    assert!(left > 0, "the old process received no event of the new type");
}

/// The process ends after the row was committed and before its event was applied; its message is not acked.
#[tokio::test(start_paused = true)]
async fn event_is_applied_once_by_next_process_if_the_first_ended_after_reception() {
    let closed = Arc::new(FailsUntil("loans", AtomicBool::new(false)));
    let first = receiving(&Subscriber::new(QUEUE, closed)).started().await;
    first.inject(message("a", 7, 1));
    first.inject(message("b", 7, 2));
    eventually(async || status(&first, "loans", "b").await == Some(ConsumeStatus::Waiting)).await;
    first.tx.tasks().kill();
    first.tx.tasks().ended().await;
    let next = first.next_process(&loans());
    next.start();
    eventually(async || notes(&next).await == ["a-noted-1", "b-noted-1"] && next.is_quiet().await).await;
    assert_eq!(status(&next, "loans", "a").await, Some(ConsumeStatus::Success));
}

#[tokio::test(start_paused = true)]
async fn archived_event_that_is_delivered_again_is_duplicate() {
    let library = receiving(&loans()).started().await;
    library.inject(message("lent", 7, 1));
    eventually(async || notes(&library).await == ["lent-noted-1"] && library.is_quiet().await).await;
    let mut unit = library.tx.begin().await.unwrap();
    let stored = unit.outbox().stored_events(&[event_id("lent")]).await.unwrap();
    assert_eq!(unit.outbox().archive(1, &stored).await.unwrap(), [event_id("lent")]);
    unit.commit().await.unwrap();
    library.inject(message("lent", 7, 1));
    eventually(async || library.is_quiet().await).await;
    assert_eq!((notes(&library).await.len(), library.ids("BOOK_LENT").await.len()), (1, 0));
    assert_eq!(library.dead_letters().await, []);
    let duplicates = log::lines().iter().filter(|line| line.contains("duplicate message ignored")).count();
    assert_eq!(duplicates, 1, "{:#?}", log::lines());
}
