//! Consumers that have no work with some events.

use handover::{Event, Options, in_transaction};
use sqlx::SqliteConnection;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &format!("reminder of {}", event.reader)).await?;
    Ok(())
}

async fn record(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &format!("record of {}", event.reader)).await?;
    Ok(())
}

#[tokio::test]
async fn event_is_not_delivered_to_a_consumer_that_it_names_as_idle() -> TestResult {
    let library = Library::open().await?;
    let builder = library
        .builder()
        .consumer("reminders", in_transaction(remind).selective())
        .consumer("records", in_transaction(record));
    let (outbox, running) = library.start(builder).await?;
    let mut tx = library.pool.begin().await?;
    let without_reminder = Options::default().idle_consumer("reminders");
    outbox.enqueue_with(&mut tx, BookLent::to("ann"), without_reminder).await?;
    tx.commit().await?;
    // A later event of the same aggregate, whose reminder does not wait for the first event.
    library.lend(&outbox, BookLent::to("ben")).await?;
    running.drain().await?;
    running.stop(STOP_LIMIT).await?;
    let mut notes = library.notes().await?;
    notes.sort();
    assert_eq!(notes, ["record of ann", "record of ben", "reminder of ben"]);
    assert_eq!(library.count("SELECT count(*) FROM event_consume_log").await?, 3);
    Ok(())
}

#[tokio::test]
async fn idle_consumer_that_no_event_can_exclude_is_refused() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().consumer("reminders", in_transaction(remind)).build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    for name in ["reminders", "reminder"] {
        let options = Options::default().idle_consumer(name);
        let refused = outbox.enqueue_with(&mut tx, BookLent::to("ann"), options).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "the event \"book.lent\" names {name:?} as idle, and this outbox has no selective consumer of this name; \
                 add `.selective()` to the functions of the consumer, or leave `idle_consumer` out"
            )
        );
    }
    // The transaction is still usable.
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    tx.commit().await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_events").await?, 1);
    Ok(())
}
