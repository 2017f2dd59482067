//! Consumers whose effects are outside the database, and consumers with settings of their own.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_contract::samples::consumption;
use handover_events::{ConsumeStatus, EventId, RetryPolicy};
use handover_memory::MemoryUnit;
use handover_outbox::consumers::{Applied, Event, ExternalHandler, Handler, HandlerError, Subscriber};
use handover_outbox::ports::{Consumption, StoreError, UnitOfWork, View as _};
use handover_outbox::{ConsumeOrder, OwnSettings};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::library::{Library, QUEUE, event_id, eventually};
use crate::{EVENT_TYPES, lent};

const NAME: &str = "mail";

/// Counts its calls per event. A call takes 0.4 s, and its result is decided by a function.
struct Mailer {
    calls: Mutex<BTreeMap<EventId, u32>>,
    result: fn(&Event) -> Result<Applied, HandlerError>,
    takes: Duration,
}

impl Mailer {
    fn new(result: fn(&Event) -> Result<Applied, HandlerError>) -> Arc<Mailer> {
        Arc::new(Mailer { calls: Mutex::default(), result, takes: Duration::from_millis(400) })
    }

    fn subscriber(self: &Arc<Self>) -> Subscriber<MemoryUnit> {
        Subscriber::external(QUEUE, Arc::clone(self) as Arc<dyn ExternalHandler>)
    }

    fn calls(&self) -> u32 {
        self.calls.lock().unwrap().values().sum()
    }
}

#[async_trait]
impl ExternalHandler for Mailer {
    fn name(&self) -> &str {
        NAME
    }

    fn event_types(&self) -> Vec<&str> {
        EVENT_TYPES.to_vec()
    }

    #[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
    async fn call(&self, event: &Event) -> Result<Applied, HandlerError> {
        *self.calls.lock().unwrap().entry(event.row.event_id.clone()).or_default() += 1;
        tokio::time::sleep(self.takes).await;
        (self.result)(event)
    }
}

fn sent(_: &Event) -> Result<Applied, HandlerError> {
    Ok(Applied::result("sent"))
}

/// Panics for the events of the first book.
fn panics_for_first_book(event: &Event) -> Result<Applied, HandlerError> {
    assert!(event.row.aggregate.id.number() > 0, "no address");
    sent(event)
}

fn refused(_: &Event) -> Result<Applied, HandlerError> {
    Err(HandlerError::Recoverable("mail server refused the message".to_owned()))
}

/// Commits `count` events, in turns of this many books.
async fn commit(library: &Library, count: i64, books: i64) {
    let event = |n: i64| library.event(&format!("e-{n}"), "BOOK_LENT", n % books, n, r#"{"reader":3}"#);
    library.commit((0..count).map(event).collect()).await;
}

async fn have_status(library: &Library, count: i64, expected: (ConsumeStatus, u32)) -> bool {
    for n in 0..count {
        if library.consumed(NAME, &format!("e-{n}")).await != Some(expected) {
            return false;
        }
    }
    true
}

#[tokio::test(start_paused = true)]
async fn slow_external_handler_is_called_once_for_each_event() {
    let mailer = Mailer::new(sent);
    let library = Library::sending([lent()]).with(&mailer.subscriber()).started().await;
    commit(&library, 20, 20).await;
    // The attempt of a running call is counted and leased.
    eventually(async || mailer.calls() == 20).await;
    assert!(have_status(&library, 20, (ConsumeStatus::Processing, 1)).await);
    eventually(async || have_status(&library, 20, (ConsumeStatus::Success, 1)).await).await;
    eventually(async || library.is_quiet().await).await;
    assert_eq!(mailer.calls(), 20);
}

#[tokio::test(start_paused = true)]
async fn failing_external_handler_is_called_once_for_each_attempt() {
    let mailer = Mailer::new(refused);
    let library = Library::sending([lent()]).with(&mailer.subscriber()).started().await;
    // Failures of ten books in a row would open the breaker. One event waits for another one of its book.
    commit(&library, 10, 9).await;
    eventually(async || have_status(&library, 10, (ConsumeStatus::Dead, 4)).await).await;
    assert_eq!(library.dead_letters().await.len(), 10);
    assert_eq!(mailer.calls(), 40);
}

#[tokio::test(start_paused = true)]
async fn external_handler_that_panics_fails_its_attempt_in_a_lane_and_in_the_sweep() {
    let mailer = Mailer::new(panics_for_first_book);
    // The second attempt is left to the sweep.
    let pause = Duration::from_secs(20);
    let retry = Some(RetryPolicy::consumer(pause, pause, 1));
    let subscriber = mailer.subscriber().with_settings(OwnSettings { retry, ..OwnSettings::default() });
    let library = Library::sending([lent()]).with(&subscriber).started().await;
    commit(&library, 4, 2).await;
    let (dead, applied) = (Some((ConsumeStatus::Dead, 2)), Some((ConsumeStatus::Success, 1)));
    for (event, expected) in [("e-0", dead), ("e-2", dead), ("e-1", applied), ("e-3", applied)] {
        eventually(async || library.consumed(NAME, event).await == expected).await;
    }
    let dead_letters = library.dead_letters().await;
    assert!(
        dead_letters.iter().all(|it| it.reason.ends_with("the handler panicked: no address")),
        "{dead_letters:?}"
    );
    assert_eq!(dead_letters.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn external_handler_that_exceeds_its_time_limit_is_repeated_as_a_failed_attempt() {
    let mailer = Mailer::new(sent);
    let settings = OwnSettings {
        attempt_timeout: Some(Duration::from_millis(300)),
        retry: Some(RetryPolicy::consumer(Duration::from_millis(200), Duration::from_secs(5), 1)),
        ..OwnSettings::default()
    };
    let subscriber = mailer.subscriber().with_settings(settings);
    let library = Library::sending([lent()]).with(&subscriber).started().await;
    commit(&library, 3, 3).await;
    eventually(async || have_status(&library, 3, (ConsumeStatus::Dead, 2)).await).await;
    assert_eq!(mailer.calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_the_end_of_the_process_interrupts_is_not_counted() {
    let mailer = Arc::new(Mailer { calls: Mutex::default(), result: sent, takes: Duration::from_secs(9) });
    let library = Library::sending([lent()]).with(&mailer.subscriber()).started().await;
    commit(&library, 3, 3).await;
    eventually(async || mailer.calls() == 3).await;
    let stopped_at = tokio::time::Instant::now();
    library.tx.tasks().stop().await;
    let waited = stopped_at.elapsed();
    assert!(waited < Duration::from_secs(7), "the calls got {waited:?} to end");
    let quick = Mailer::new(sent);
    let next = library.next_process(&quick.subscriber());
    for n in 0..3 {
        let record = next.consumed(NAME, &format!("e-{n}")).await;
        assert_eq!(record, Some((ConsumeStatus::Waiting, 0)), "an interrupted attempt was counted");
    }
    next.start();
    eventually(async || have_status(&next, 3, (ConsumeStatus::Success, 1)).await).await;
}

/// Fails for the first five books.
fn refused_for_five_books(event: &Event) -> Result<Applied, HandlerError> {
    if event.row.aggregate.id.number() < 5 { refused(event) } else { sent(event) }
}

/// Takes at most four deliveries, and repeats a call after 20 s.
fn patient(mailer: &Arc<Mailer>) -> Subscriber<MemoryUnit> {
    let pause = Duration::from_secs(20);
    mailer.subscriber().with_settings(OwnSettings {
        prefetch: NonZeroU16::new(4),
        retry: Some(RetryPolicy::consumer(pause, pause, 2)),
        ..OwnSettings::default()
    })
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_long_for_their_next_attempt_do_not_delay_others() {
    let mailer = Mailer::new(refused_for_five_books);
    let library = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    commit(&library, 20, 20).await;
    let begun = Instant::now();
    let others = async || {
        for n in 5..20 {
            if library.consumed(NAME, &format!("e-{n}")).await != Some((ConsumeStatus::Success, 1)) {
                return false;
            }
        }
        true
    };
    eventually(others).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    eventually(async || have_status(&library, 5, (ConsumeStatus::Dead, 3)).await).await;
    let took = begun.elapsed();
    assert!((Duration::from_secs(36)..Duration::from_secs(60)).contains(&took), "{took:?}");
    assert_eq!(mailer.calls(), 15 + 5 * 3);
}

/// Fails at the first attempt of the first event of each book.
fn refused_at_first(event: &Event) -> Result<Applied, HandlerError> {
    if event.row.aggregate_seq == 1 && event.attempt == 1 { refused(event) } else { sent(event) }
}

#[tokio::test(start_paused = true)]
async fn next_attempts_are_not_delayed_by_many_events_that_wait_for_them() {
    let takes = Duration::from_millis(1);
    let mailer = Arc::new(Mailer { calls: Mutex::default(), result: refused_at_first, takes });
    let library = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    let event = |book, seq| {
        library.event(&format!("e-{}", (seq - 1) * 5 + book), "BOOK_LENT", book, seq, r#"{"reader":3}"#)
    };
    let begun = Instant::now();
    for seq in 1..=200 {
        library.commit((0..5).map(|book| event(book, seq)).collect()).await;
    }
    eventually(async || mailer.calls() == 1_005).await;
    let took = begun.elapsed();
    assert!((Duration::from_secs(18)..Duration::from_secs(36)).contains(&took), "{took:?}");
    assert!(have_status(&library, 5, (ConsumeStatus::Success, 2)).await);
}

/// Takes longer than three seconds for all events of the first book together; the first event of each book fails once.
#[tokio::test(start_paused = true)]
async fn next_attempts_are_not_delayed_by_slow_events_of_another_aggregate() {
    let mailer = Mailer::new(refused_at_first);
    let library = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    let event = |id: &str, book: i64, seq: i64| library.event(id, "BOOK_LENT", book, seq, r#"{"reader":3}"#);
    library.commit((1..=40).map(|seq| event(&format!("slow-{seq}"), 1, seq)).collect()).await;
    library.commit(vec![event("other", 2, 1)]).await;
    let begun = Instant::now();
    let is_applied = async |id: &str| {
        library.consumed(NAME, id).await.is_some_and(|(status, _)| status == ConsumeStatus::Success)
    };
    eventually(async || is_applied("other").await).await;
    let took = begun.elapsed();
    assert!((Duration::from_secs(20)..Duration::from_secs(32)).contains(&took), "{took:?}");
    assert!(!is_applied("slow-40").await);
    eventually(async || is_applied("slow-40").await).await;
    assert_eq!(mailer.calls(), 41 + 2);
}

#[tokio::test(start_paused = true)]
async fn process_that_stops_applies_no_further_event_that_waited() {
    let mailer = Mailer::new(refused_at_first);
    let library = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    let event = |seq: i64| library.event(&format!("e-{seq}"), "BOOK_LENT", 1, seq, r#"{"reader":3}"#);
    library.commit((1..=40).map(event).collect()).await;
    // The failed call, and then one of the events that waited for it.
    eventually(async || mailer.calls() == 3).await;
    library.tx.tasks().stop().await;
    assert_eq!(mailer.calls(), 3);
}

/// Meets an outage outside of the outbox's database for the first book.
fn unavailable_for_first_book(event: &Event) -> Result<Applied, HandlerError> {
    if event.row.aggregate.id.number() > 0 {
        return refused_at_first(event);
    }
    Err(HandlerError::Store(StoreError::Unavailable("no connection to the address book".into())))
}

#[tokio::test(start_paused = true)]
async fn outage_of_a_handler_alone_is_no_attempt_and_delays_no_other_event() {
    let mailer = Mailer::new(unavailable_for_first_book);
    let library = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    let next = library.next_process(&patient(&mailer));
    next.start();
    commit(&library, 1, 1).await;
    // Longer than leases of all attempts.
    library.outbox.sleep(Duration::from_secs(100)).await;
    library.commit(vec![library.event("other", "BOOK_LENT", 1, 1, r#"{"reader":3}"#)]).await;
    eventually(async || library.consumed(NAME, "other").await == Some((ConsumeStatus::Success, 2))).await;
    let attempts = library.consumed(NAME, "e-0").await.map(|(_, attempts)| attempts);
    assert!(attempts.is_some_and(|attempts| attempts <= 1), "{attempts:?} attempts were counted");
    assert_eq!(library.dead_letters().await, []);
}

/// The answer of another system.
fn answered(_: &Event) -> Result<Applied, HandlerError> {
    Ok(Applied::result("accepted\0").with_key("k\0"))
}

#[tokio::test(start_paused = true)]
async fn result_of_a_handler_is_stored_without_characters_that_a_store_refuses() {
    let mailer = Mailer::new(answered);
    let library = Library::sending([lent()]).with(&mailer.subscriber()).started().await;
    commit(&library, 1, 1).await;
    eventually(async || have_status(&library, 1, (ConsumeStatus::Success, 1)).await).await;
    let mut view = library.tx.view().await.unwrap();
    let consumed = view.outbox_view().consumed_of(&[event_id("e-0")]).await.unwrap();
    let texts = (consumed[0].consume_result.as_deref(), consumed[0].idempotency_key.as_deref());
    assert_eq!(texts, (Some("accepted\\x00"), Some("k\\x00")));
}

/// Two processes, the second of which starts this long after the first one; the event is delivered twice again while it waits
/// for its next attempt.
async fn next_attempt_of_two_processes(starts_after: Duration, first_is_killed: bool) {
    let mailer = Mailer::new(refused_at_first);
    let first = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    let second = first.next_process(&patient(&mailer));
    first.outbox.sleep(starts_after).await;
    second.start();
    first.commit(vec![first.event("e-0", "BOOK_LENT", 1, 1, r#"{"reader":3}"#)]).await;
    eventually(async || have_status(&first, 1, (ConsumeStatus::Failed, 1)).await).await;
    for _ in 0..2 {
        first.deliver("e-0").await;
    }
    eventually(async || second.is_quiet().await).await;
    if first_is_killed {
        first.tx.tasks().kill();
        first.tx.tasks().ended().await;
    }
    eventually(async || have_status(&second, 1, (ConsumeStatus::Success, 2)).await).await;
    assert_eq!(mailer.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_was_waited_for_long_begins_once_although_two_processes_run() {
    // The second sweep runs at the same microsecond as the first one, or during the call that the first one begins.
    for starts_after in [Duration::ZERO, Duration::from_millis(100)] {
        next_attempt_of_two_processes(starts_after, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_that_was_waited_for_long_begins_in_another_process_if_the_first_was_killed() {
    next_attempt_of_two_processes(Duration::from_millis(100), true).await;
}

#[tokio::test(start_paused = true)]
async fn next_attempts_are_not_delayed_by_records_that_cannot_be_settled() {
    let mailer = Mailer::new(refused_at_first);
    let library = Library::sending([lent()]).with(&patient(&mailer)).started().await;
    // Somebody has deleted the rows of these events.
    let deleted = |n: i64| {
        let event = library.event(&format!("deleted-{n}"), "BOOK_LENT", 1_000 + n, 1, "{}");
        Consumption {
            status: ConsumeStatus::Waiting,
            consume_time: library.outbox.now(),
            ..consumption(NAME, &event)
        }
    };
    let records: Vec<_> = (0..250).map(deleted).collect();
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().record(&records).await.unwrap();
    unit.commit().await.unwrap();
    library.commit(vec![library.event("e-0", "BOOK_LENT", 1, 1, r#"{"reader":3}"#)]).await;
    eventually(async || have_status(&library, 1, (ConsumeStatus::Success, 2)).await).await;
}

#[tokio::test(start_paused = true)]
async fn killed_process_repeats_at_most_the_calls_in_progress() {
    let mailer = Mailer::new(sent);
    let prefetch = NonZeroU16::new(4);
    let subscriber = mailer.subscriber().with_settings(OwnSettings { prefetch, ..OwnSettings::default() });
    let library = Library::sending([lent()]).with(&subscriber).started().await;
    commit(&library, 20, 20).await;
    // The second turn of four calls is in progress.
    eventually(async || mailer.calls() == 8).await;
    library.tx.tasks().kill();
    library.tx.tasks().ended().await;
    let next = library.next_process(&subscriber);
    next.start();
    let is_done = async || {
        for n in 0..20 {
            let record = next.consumed(NAME, &format!("e-{n}")).await;
            if record.map(|(status, _)| status) != Some(ConsumeStatus::Success) {
                return false;
            }
        }
        true
    };
    eventually(is_done).await;
    let calls = mailer.calls.lock().unwrap();
    assert_eq!(calls.len(), 20);
    assert!(calls.values().all(|count| *count <= 2), "{calls:?}");
    assert!(calls.values().sum::<u32>() <= 24, "{calls:?}");
}

/// Waits for a permit at the event `e-0`, and records the order of the others.
struct Waiting {
    permits: Semaphore,
    applied: Mutex<Vec<String>>,
}

#[async_trait]
impl Handler<MemoryUnit> for Waiting {
    fn name(&self) -> &str {
        NAME
    }

    fn event_types(&self) -> Vec<&str> {
        EVENT_TYPES.to_vec()
    }

    async fn apply(&self, _: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        for event in events {
            if event.row.event_id.as_str() == "e-0" && self.permits.try_acquire().is_err() {
                return Err(HandlerError::Recoverable("not yet".to_owned()));
            }
            self.applied.lock().unwrap().push(event.row.event_id.to_string());
        }
        Ok(events.iter().map(|_| Applied::default()).collect())
    }
}

async fn order_of(order: ConsumeOrder) -> Vec<String> {
    let handler = Arc::new(Waiting { permits: Semaphore::new(0), applied: Mutex::default() });
    let settings = OwnSettings {
        order,
        retry: Some(RetryPolicy::consumer(Duration::from_secs(1), Duration::from_secs(1), 100)),
        ..OwnSettings::default()
    };
    let subscriber = Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>).with_settings(settings);
    let library = Library::sending([lent()]).with(&subscriber).started().await;
    commit(&library, 3, 1).await;
    eventually(async || library.consumed(NAME, "e-0").await.is_some_and(|(_, attempts)| attempts >= 3)).await;
    handler.permits.add_permits(1);
    eventually(async || library.consumed(NAME, "e-0").await.is_some_and(|it| it.0 == ConsumeStatus::Success))
        .await;
    eventually(async || library.is_quiet().await).await;
    let mut applied = handler.applied.lock().unwrap().clone();
    // A handler that runs in a group which is rolled back runs again.
    applied.dedup();
    applied
}

#[tokio::test(start_paused = true)]
async fn failing_event_delays_later_events_of_its_aggregate_only_in_a_consumer_with_order() {
    assert_eq!(order_of(ConsumeOrder::Sequence).await, ["e-0", "e-1", "e-2"]);
    let mut unordered = order_of(ConsumeOrder::Any).await;
    assert_eq!(unordered.pop().as_deref(), Some("e-0"));
    unordered.sort();
    unordered.dedup();
    assert_eq!(unordered, ["e-1", "e-2"]);
}
