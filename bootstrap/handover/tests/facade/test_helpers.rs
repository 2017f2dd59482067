//! The helpers for tests of a service.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::TimeDelta;
use handover::test::{ManualClock, TestDatabase, TestError};
use handover::{ConsumeStatus, Data, Event, HandlerError, RetryPolicy, at_least_once, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection};

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

/// Another event type.
#[derive(Serialize, Deserialize, Event)]
#[event(name = "shelf.moved", aggregate = "shelf")]
struct ShelfMoved {
    #[event(key)]
    shelf: i64,
    metres: f32,
}

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    if event.reader == "unknown" {
        return Err(HandlerError::permanent("no such reader"));
    }
    Ok(note(connection, event.event_id(), &event.reader).await?)
}

#[tokio::test]
async fn helpers_observe_events_states_and_duplicates() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.lend(&outbox, BookLent::to("unknown")).await?;
    running.drain().await?;
    assert_eq!(library.notes().await?, ["ann"]);
    let events: Vec<Event<BookLent>> = running.enqueued().await?;
    let [applied, dead] = events.as_slice() else { panic!("{} events", events.len()) };
    assert_eq!((applied.reader.as_str(), dead.reader.as_str()), ("ann", "unknown"));
    running.wait_for(applied.event_id(), "reminders", ConsumeStatus::Success).await?;
    running.wait_for(dead.event_id(), "reminders", ConsumeStatus::Dead).await?;
    running.deliver_again(applied.event_id()).await?;
    assert_eq!(library.notes().await?, ["ann"]);
    assert!(matches!(running.deliver_again("other").await, Err(TestError::NoEvent(_))));
    running.stop(STOP_LIMIT).await?;
    Ok(())
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the panic of a task is observed")]
async fn failed_assertion_names_its_line_and_what_was_enqueued_instead() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().event::<BookLent>().event::<ShelfMoved>();
    let (outbox, running) = library.start(builder).await?;
    running.assert_enqueued::<BookLent>(&[]).await;
    library.lend(&outbox, BookLent::to("ann")).await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue(&mut tx, ShelfMoved { shelf: 7, metres: 0.1 }).await?;
    tx.commit().await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue(&mut tx, BookLent::to("rolled back")).await?;
    tx.rollback().await?;
    running.assert_enqueued(&[BookLent::to("ann")]).await;
    running.assert_enqueued(&[ShelfMoved { shelf: 7, metres: 0.1 }]).await;

    let line = line!() + 2;
    let assertion = tokio::spawn(async move {
        running.assert_enqueued(&[BookLent::to("ben"), BookLent::to("cem")]).await;
    });
    let panicked = assertion.await.err().ok_or("the assertion did not fail")?.into_panic();
    let message = panicked.downcast::<String>().map_err(|_| "the panic has no text")?;
    let (place, difference) = message.split_once(" failed: ").ok_or_else(|| message.to_string())?;
    assert!(place.contains(&format!("test_helpers.rs:{line}:")), "{place}");
    assert_eq!(
        difference,
        "the enqueued events \"book.lent\" differ\n\
         \x20 expected:\n    {\"book\":1,\"reader\":\"ben\"}\n    {\"book\":1,\"reader\":\"cem\"}\n\
         \x20 enqueued:\n    {\"book\":1,\"reader\":\"ann\"}\n\
         \x20 other events:\n    shelf.moved {\"shelf\":7,\"metres\":0.1}"
    );
    Ok(())
}

#[tokio::test]
async fn event_for_later_is_applied_when_the_clock_has_advanced() -> TestResult {
    let library = Library::open().await?;
    let clock = ManualClock::default();
    let builder = library.builder().clock(&clock).consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue_at(&mut tx, BookLent::to("ann"), clock.now() + TimeDelta::weeks(2)).await?;
    tx.commit().await?;
    // The first one waits for the earlier event of its aggregate, the second one does not.
    library.lend(&outbox, BookLent::to("ben")).await?;
    library.lend(&outbox, BookLent { book: 2, ..BookLent::to("cem") }).await?;
    running.drain().await?;
    assert_eq!(library.notes().await?, ["cem"]);
    clock.advance(TimeDelta::weeks(2).to_std()? - Duration::from_secs(1));
    running.drain().await?;
    assert_eq!(library.notes().await?, ["cem"]);
    clock.advance(Duration::from_secs(1));
    running.drain().await?;
    assert_eq!(library.notes().await?, ["cem", "ann", "ben"]);
    let events: Vec<Event<BookLent>> = running.enqueued().await?;
    assert_eq!(events[0].occurred_at(), clock.now() - TimeDelta::weeks(2));
    running.stop(STOP_LIMIT).await?;
    Ok(())
}

/// The readers to whom a reminder was sent.
#[derive(Default)]
struct Sent {
    /// Calls for "ann". The first two fail.
    calls: AtomicU32,
    readers: Mutex<Vec<String>>,
}

impl Sent {
    fn readers(&self) -> MutexGuard<'_, Vec<String>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn send(event: Event<BookLent>, sent: Data<Arc<Sent>>) -> handover::Result {
    if event.reader == "ann" && sent.calls.fetch_add(1, Ordering::SeqCst) < 2 {
        return Err(HandlerError::retryable("no connection"));
    }
    sent.readers().push(event.reader.clone());
    Ok(())
}

#[tokio::test]
async fn failed_event_is_retried_when_the_clock_has_advanced() -> TestResult {
    const PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
    let library = Library::open().await?;
    let clock = ManualClock::default();
    let sent = Arc::new(Sent::default());
    let consumer = at_least_once(send).retry(RetryPolicy::consumer(PAUSE, PAUSE, 3));
    let builder = library.builder().clock(&clock).data(Arc::clone(&sent)).consumer("mail", consumer);
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.lend(&outbox, BookLent::to("ben")).await?;
    for attempt in 1..=2 {
        running.drain().await?;
        assert_eq!(sent.calls.load(Ordering::SeqCst), attempt);
        assert_eq!(*sent.readers(), [""; 0], "ben waits for ann");
        clock.advance(PAUSE);
    }
    running.drain().await?;
    assert_eq!(*sent.readers(), ["ann", "ben"]);
    running.stop(STOP_LIMIT).await?;
    Ok(())
}

#[tokio::test]
async fn drain_waits_for_an_event_after_a_failed_one_if_the_consumer_is_unordered() -> TestResult {
    let library = Library::open().await?;
    let sent = Arc::new(Sent::default());
    let builder = library
        .builder()
        .clock(&ManualClock::default())
        .data(Arc::clone(&sent))
        .consumer("mail", at_least_once(send).unordered());
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.lend(&outbox, BookLent::to("ben")).await?;
    running.drain().await?;
    assert_eq!(*sent.readers(), ["ben"]);
    running.stop(STOP_LIMIT).await?;
    Ok(())
}

#[tokio::test]
async fn databases_of_tests_are_separate_and_their_files_are_removed() -> TestResult {
    let mut files = Vec::new();
    let (one, other) = (TestDatabase::<Sqlite>::create().await?, TestDatabase::<Sqlite>::create().await?);
    for database in [&one, &other] {
        sqlx::raw_sql("CREATE TABLE readers (name TEXT)").execute(database.pool()).await?;
        let file = "SELECT file FROM pragma_database_list WHERE name = 'main'";
        let file: String = sqlx::query_scalar(file).fetch_one(database.pool()).await?;
        assert!(std::fs::exists(&file)?);
        files.push(file);
    }
    one.close().await?;
    drop(other);
    for file in files {
        assert!(!std::fs::exists(&file)?, "{file}");
    }
    Ok(())
}
