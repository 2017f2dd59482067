//! Migration, start and stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handover::{Data, Error, Event, Role, at_least_once, in_transaction};
use sqlx::SqliteConnection;
use tokio::sync::Notify;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &event.reader).await?;
    Ok(())
}

#[tokio::test]
async fn start_without_migration_is_refused() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().build()?;
    let refused = outbox.start().await.err().ok_or("not refused")?;
    let text = refused.to_string();
    assert!(text.starts_with("the tables of the outbox have not been created, and version "), "{text}");
    assert!(text.ends_with("is needed; call `outbox.migrate().await` before `start`"), "{text}");
    Ok(())
}

#[tokio::test]
async fn table_of_the_service_with_a_name_of_the_outbox_is_refused() -> TestResult {
    let library = Library::open().await?;
    sqlx::raw_sql("CREATE TABLE dead_letters (id INTEGER PRIMARY KEY)").execute(&library.pool).await?;
    let refused = library.builder().build()?.migrate().await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the tables of the outbox cannot be created in the database: it has a table dead_letters that handover did not create; \
         rename it, or give the tables of the outbox a prefix with `Builder::table_prefix`, or let the connection options of \
         the pool name another schema (`search_path`) or database"
    );
    Ok(())
}

#[tokio::test]
async fn start_that_is_dropped_at_any_time_can_be_repeated() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().consumer("reminders", in_transaction(remind)).build()?;
    outbox.migrate().await?;
    let mut limit = Duration::from_micros(100);
    loop {
        limit = limit.mul_f64(1.1);
        if let Ok(running) = tokio::time::timeout(limit, outbox.start()).await {
            let running = running?;
            library.lend(&outbox, BookLent::to("ann")).await?;
            library.consumed("SUCCESS", 1).await?;
            running.stop(STOP_LIMIT).await?;
            break;
        }
    }
    assert_eq!(library.notes().await?, ["ann"]);
    Ok(())
}

#[tokio::test]
async fn second_start_is_refused_until_the_outbox_stops() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    let refused = outbox.clone().start().await.err().ok_or("not refused")?;
    assert!(matches!(refused, Error::Running {}), "{refused}");
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    let again = outbox.start().await?;
    library.lend(&outbox, BookLent::to("ben")).await?;
    library.consumed("SUCCESS", 2).await?;
    again.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ann", "ben"]);
    Ok(())
}

#[tokio::test]
async fn event_that_was_enqueued_before_the_start_is_applied_afterwards() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().consumer("reminders", in_transaction(remind)).build()?;
    outbox.migrate().await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    let running = outbox.start().await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ann"]);
    Ok(())
}

#[tokio::test]
async fn roles_of_one_service_can_be_divided_among_outboxes() -> TestResult {
    let library = Library::open().await?;
    let with = |roles: &[Role]| {
        library.builder().consumer("reminders", in_transaction(remind)).roles(roles.iter().copied())
    };
    let (consuming, consumers) = library.start(with(&[Role::Consumers])).await?;
    library.lend(&consuming, BookLent::to("ann")).await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_events WHERE status = 'NEW'").await?, 1);
    let (_, relay) = library.start(with(&[Role::Relay])).await?;
    library.consumed("SUCCESS", 1).await?;
    relay.stop(STOP_LIMIT).await?;
    consumers.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ann"]);
    Ok(())
}

/// Ends at the second call.
async fn wait_once(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    entered: Data<Arc<Notify>>,
    is_called: Data<Arc<AtomicBool>>,
) -> handover::Result {
    if !is_called.swap(true, Ordering::SeqCst) {
        entered.notify_one();
        std::future::pending::<()>().await;
    }
    Ok(note(connection, event.event_id(), &event.reader).await?)
}

#[tokio::test]
async fn outbox_whose_stop_was_dropped_can_be_started_again() -> TestResult {
    let library = Library::open().await?;
    let entered = Arc::new(Notify::new());
    let builder = library.builder().data(Arc::clone(&entered)).data(Arc::new(AtomicBool::new(false)));
    let builder = builder.consumer("reminders", in_transaction(wait_once));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    entered.notified().await;
    tokio::time::timeout(Duration::from_millis(50), running.stop(STOP_LIMIT)).await.unwrap_err();
    let again = outbox.start().await?;
    library.consumed("SUCCESS", 1).await?;
    again.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ann"]);
    Ok(())
}

/// Never ends.
async fn wait(_: Event<BookLent>, entered: Data<Arc<Notify>>) -> handover::Result {
    entered.notify_one();
    std::future::pending().await
}

#[tokio::test]
async fn stop_names_its_time_limit_if_a_handler_does_not_end() -> TestResult {
    let library = Library::open().await?;
    let entered = Arc::new(Notify::new());
    let builder = library.builder().data(Arc::clone(&entered)).consumer("waiting", at_least_once(wait));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    entered.notified().await;
    let refused = running.stop(Duration::from_millis(50)).await.unwrap_err();
    assert!(refused.to_string().starts_with("the tasks of the outbox did not end within 50ms"), "{refused}");
    Ok(())
}
