//! The helpers for tests of a service.

use handover::test::TestError;
use handover::{ConsumeStatus, Event, HandlerError, in_transaction};
use sqlx::SqliteConnection;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

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
