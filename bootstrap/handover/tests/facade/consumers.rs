//! What consumers do with events: effects, retries, order.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use handover::{
    Applied, BoxFuture, Call, Data, Enqueuer, Event, HandlerError, Layer, RetryPolicy, at_least_once,
    in_transaction,
};
use serde::{Deserialize, Serialize};
use sqlx::{Connection as _, Sqlite, SqliteConnection};

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

/// Number of calls of a handler.
#[derive(Default)]
struct Calls(AtomicU32);

impl Calls {
    /// Counts a call and returns its number, from 1.
    fn count(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Three attempts, with a short pause.
fn two_retries() -> RetryPolicy {
    RetryPolicy::consumer(Duration::from_millis(1), Duration::from_millis(1), 2)
}

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &event.reader).await?;
    Ok(())
}

#[tokio::test]
async fn event_of_committed_transaction_has_its_effect_once() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ann"]);
    Ok(())
}

#[tokio::test]
async fn effects_of_one_aggregate_follow_the_order_of_the_commits() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    let readers: Vec<String> = (0..20).map(|number| format!("reader {number}")).collect();
    for reader in &readers {
        library.lend(&outbox, BookLent::to(reader)).await?;
    }
    library.consumed("SUCCESS", 20).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, readers);
    Ok(())
}

async fn fail_twice(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    calls: Data<Calls>,
) -> handover::Result {
    let call = calls.count();
    note(connection, event.event_id(), &format!("call {call}")).await?;
    if call < 3 { Err(HandlerError::retryable("not yet")) } else { Ok(()) }
}

#[tokio::test]
async fn effects_of_failed_attempts_are_rolled_back() -> TestResult {
    let library = Library::open().await?;
    let functions = in_transaction(fail_twice).retry(two_retries());
    let builder = library.builder().data(Calls::default()).consumer("reminders", functions);
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["call 3"]);
    Ok(())
}

/// An error of the service.
#[derive(Debug, thiserror::Error)]
#[error("the reminder cannot be written")]
struct NotWritten(#[source] sqlx::Error);

async fn lose_database_twice(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    calls: Data<Calls>,
) -> Result<(), NotWritten> {
    if calls.count() < 3 {
        return Err(NotWritten(sqlx::Error::PoolTimedOut));
    }
    note(connection, event.event_id(), &event.reader).await.map_err(NotWritten)
}

#[tokio::test]
async fn outage_within_an_error_of_the_service_is_no_attempt() -> TestResult {
    let library = Library::open().await?;
    let once = RetryPolicy::consumer(Duration::from_millis(1), Duration::from_millis(1), 0);
    let functions = in_transaction(lose_database_twice).retry(once);
    let builder = library.builder().data(Calls::default()).consumer("reminders", functions);
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.count("SELECT attempts FROM event_consume_log").await?, 1);
    assert_eq!(library.notes().await?, ["ann"]);
    Ok(())
}

/// sqlx does not support parameters with names.
async fn bind_by_name(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    let insert = sqlx::query("INSERT INTO effects (event_id, note) VALUES (:event, 'lent')");
    insert.bind(event.event_id()).execute(connection).await?;
    Ok(())
}

#[tokio::test]
async fn statement_with_parameters_that_the_driver_refuses_is_an_attempt() -> TestResult {
    let library = Library::open().await?;
    let functions = in_transaction(bind_by_name).retry(two_retries());
    let (outbox, running) = library.start(library.builder().consumer("reminders", functions)).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.count("SELECT attempts FROM event_consume_log").await?, 3);
    Ok(())
}

/// Commits a nested transaction, then fails.
async fn nest(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    let mut nested = connection.begin().await?;
    note(&mut nested, event.event_id(), "nested").await?;
    nested.commit().await?;
    match event.reader.as_str() {
        "ann" => Err(HandlerError::permanent("after the nested commit")),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn nested_transaction_is_committed_only_with_the_event() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(nest));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    assert_eq!(library.notes().await?, [""; 0]);
    library.lend(&outbox, BookLent { book: 2, reader: "ben".to_owned() }).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["nested"]);
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("request failed")]
struct RequestFailed(#[source] std::io::Error);

async fn request(_: Event<BookLent>) -> Result<(), RequestFailed> {
    Err(RequestFailed(std::io::Error::other("connection refused")))
}

#[tokio::test]
async fn reason_of_a_dead_letter_has_the_causes_of_the_error() -> TestResult {
    let library = Library::open().await?;
    let functions = at_least_once(request).retry(two_retries());
    let (outbox, running) = library.start(library.builder().consumer("mail", functions)).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    running.stop(STOP_LIMIT).await?;
    let reason: String =
        sqlx::query_scalar("SELECT error_message FROM event_consume_log").fetch_one(&library.pool).await?;
    assert!(reason.ends_with("request failed: connection refused"), "{reason}");
    Ok(())
}

async fn mail(event: Event<BookLent>, calls: Data<Calls>) -> Result<String, std::io::Error> {
    match (calls.count(), event.reader.as_str()) {
        (1, "ann") => Err(std::io::Error::other("no connection")),
        (call, _) => Ok(format!("call {call}")),
    }
}

#[tokio::test]
async fn external_function_is_called_once_per_counted_attempt() -> TestResult {
    let library = Library::open().await?;
    let prefetch = NonZeroU16::MIN.saturating_add(4);
    let functions =
        at_least_once(mail).retry(two_retries()).prefetch(prefetch).timeout(Duration::from_secs(5));
    let builder = library.builder().data(Calls::default()).consumer("mail", functions);
    let (outbox, running) = library.start(builder).await?;
    for reader in ["ann", "ben", "cem"] {
        library.lend(&outbox, BookLent::to(reader)).await?;
    }
    library.consumed("SUCCESS", 3).await?;
    running.stop(STOP_LIMIT).await?;
    let attempts: Vec<(i64, String)> =
        sqlx::query_as("SELECT attempts, consume_result FROM event_consume_log ORDER BY id")
            .fetch_all(&library.pool)
            .await?;
    let expected = [(2, "call 2"), (1, "call 3"), (1, "call 4")];
    assert_eq!(attempts, expected.map(|(attempts, result)| (attempts, result.to_owned())));
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.reminded", aggregate = "reader")]
struct ReaderReminded {
    #[event(key)]
    reader_number: i64,
}

/// Enqueues another event in the transaction of its event.
async fn announce(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    outbox: Data<Enqueuer<Sqlite>>,
) -> handover::Result<String> {
    outbox.enqueue(connection, ReaderReminded { reader_number: event.book }).await?;
    Ok(format!("announced {event}"))
}

async fn record(event: Event<ReaderReminded>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &format!("reader {}", event.reader_number)).await?;
    Ok(())
}

#[tokio::test]
async fn handler_enqueues_events_in_its_own_transaction() -> TestResult {
    let library = Library::open().await?;
    let builder = library
        .builder()
        .consumer("announcements", in_transaction(announce))
        .consumer("records", in_transaction(record));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("SUCCESS", 2).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["reader 1"]);
    Ok(())
}

#[tokio::test]
async fn consumer_has_a_function_per_event_type() -> TestResult {
    let library = Library::open().await?;
    let functions = in_transaction(remind).and(record).unordered();
    let (outbox, running) = library.start(library.builder().consumer("both", functions)).await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    outbox.enqueue(&mut tx, ReaderReminded { reader_number: 7 }).await?;
    tx.commit().await?;
    library.consumed("SUCCESS", 2).await?;
    running.stop(STOP_LIMIT).await?;
    let mut notes = library.notes().await?;
    notes.sort();
    assert_eq!(notes, ["ann", "reader 7"]);
    Ok(())
}

/// Counts calls, and fails the first one.
struct FailFirst(Arc<Calls>);

impl Layer for FailFirst {
    fn around<'a>(
        &self,
        event: Call<'_>,
        call: BoxFuture<'a, handover::Result<Applied>>,
    ) -> BoxFuture<'a, handover::Result<Applied>> {
        let number = self.0.count();
        let why = format!("{} of {}", event.event_type(), event.consumer());
        Box::pin(async move {
            let applied = call.await?;
            if number == 1 { Err(HandlerError::retryable(why)) } else { Ok(applied) }
        })
    }
}

#[tokio::test]
async fn layer_runs_around_every_call_of_a_handler() -> TestResult {
    let library = Library::open().await?;
    let calls = Arc::new(Calls::default());
    let builder = library
        .builder()
        .layer(FailFirst(Arc::clone(&calls)))
        .consumer("reminders", in_transaction(remind).retry(two_retries()));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!((library.notes().await?, calls.count()), (vec!["ann".to_owned()], 3));
    Ok(())
}

/// A later version of the event, with a field that earlier events do not have.
#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLentUntil {
    #[event(key)]
    book: i64,
    until: String,
}

async fn remind_until(event: Event<BookLentUntil>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &event.until).await?;
    Ok(())
}

#[tokio::test]
async fn payload_of_another_structure_is_a_dead_letter_two_retries() -> TestResult {
    let library = Library::open().await?;
    let sender = library.builder().roles([]).event::<BookLent>().build()?;
    let (_, running) =
        library.start(library.builder().consumer("reminders", in_transaction(remind_until))).await?;
    library.lend(&sender, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    running.stop(STOP_LIMIT).await?;
    let error: String =
        sqlx::query_scalar("SELECT error_message FROM event_consume_log").fetch_one(&library.pool).await?;
    assert!(error.contains("invalid payload of book.lent: missing field `until`"), "{error}");
    Ok(())
}
