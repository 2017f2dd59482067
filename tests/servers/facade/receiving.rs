//! Two services with a database each: one publishes events through RabbitMQ, and a consumer of the other one receives them.

use std::future::pending;

use handover::{Builder, in_transaction};
use handover_tests::servers::Durability;
use handover_tests::servers::database::DatabaseServer;
use sqlx::{MySql, MySqlConnection, Postgres};

use super::*;

const EVENTS: usize = 30;

/// Whether the handler works. Until then it waits, as a handler does whose process ends.
struct IsWorking(bool);

async fn remind(
    event: Event<BookLent>,
    connection: &mut MySqlConnection,
    is_working: Data<IsWorking>,
) -> handover::Result {
    if !is_working.0 {
        pending::<()>().await;
    }
    let insert = sqlx::query("INSERT INTO effects VALUES (?, ?)");
    insert.bind(event.event_id()).bind(&event.reader).execute(connection).await?;
    Ok(())
}

fn reminders(
    service: &Service<MySql>,
    url: &str,
    is_working: bool,
) -> Result<Builder<MySql>, handover::BuildError> {
    let builder = Outbox::builder(service.pool.clone()).name("reminders").broker(RabbitMq::new(url)?);
    Ok(builder
        .data(IsWorking(is_working))
        .consumer("reminders", in_transaction(remind).from("library.events")))
}

async fn received(service: &Service<MySql>) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows = "SELECT status, aggregate_seq FROM outbox_events ORDER BY id";
    sqlx::query_as(rows).fetch_all(&service.pool).await
}

/// Waits until the first event is received.
async fn begin_to_receive(service: &Service<MySql>) -> TestResult {
    let begun = Instant::now();
    while received(service).await?.is_empty() {
        assert!(begun.elapsed() < TIME_LIMIT, "no event is received");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Waits until all events are applied, and checks that this happened once and in order.
async fn assert_applied_in_order(service: &Service<MySql>) -> TestResult {
    assert_eq!(service.settled(EVENTS).await?.len(), EVENTS);
    let expected: Vec<String> = (0..EVENTS).map(|step| format!("reader {step:02}")).collect();
    assert_eq!(service.notes().await?, expected);
    let sent: Vec<(String, i64)> = (1..=EVENTS as i64).map(|seq| ("SENT".to_owned(), seq)).collect();
    assert_eq!(received(service).await?, sent);
    let dead: i64 = sqlx::query_scalar("SELECT count(*) FROM dead_letters").fetch_one(&service.pool).await?;
    assert_eq!(dead, 0);
    Ok(())
}

/// The process of the consumer ends after it has received events and before it has applied one.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_service_are_applied_once_and_in_order_although_a_process_ends() -> TestResult {
    let vhost = rabbit_rigs::shared().await.vhost().await?;
    let library = Service::<Postgres>::new().await?;
    let service = Service::<MySql>::new().await?;
    let publishing = library.builder().broker(RabbitMq::new(&vhost.url())?).event::<BookLent>();
    let (outbox, publisher) = library.start(publishing).await?;
    let (_, ending) = service.start(reminders(&service, &vhost.url(), false)?).await?;
    for step in 0..EVENTS {
        library.enqueue(&outbox, BookLent::to(&format!("reader {step:02}"))).await?;
    }
    begin_to_receive(&service).await?;
    let stopped = ending.stop(Duration::ZERO).await;
    assert!(stopped.is_err(), "the tasks are ended where they are");
    assert_eq!(service.notes().await?, [""; 0]);

    let (receiving, running) = service.start(reminders(&service, &vhost.url(), true)?).await?;
    assert_applied_in_order(&service).await?;
    // The receiving service publishes a row again only if an operator wants it.
    command("outbox redrive --status sent --reason again")?.run(&receiving).await?;
    running.drain().await?;
    assert_applied_in_order(&service).await?;
    running.stop(TIME_LIMIT).await?;
    publisher.stop(TIME_LIMIT).await?;
    let failed: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_events WHERE status <> 'SENT'")
        .fetch_one(&library.pool)
        .await?;
    assert_eq!(failed, 0, "a queue of another service counts as a recipient");
    Ok(())
}

/// The database of the consumer is killed while events arrive, and starts again.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_service_are_applied_once_and_in_order_although_the_database_ends() -> TestResult {
    let vhost = rabbit_rigs::shared().await.vhost().await?;
    let server = DatabaseServer::start(ServerKind::MariaDb, Durability::Full).await?;
    let library = Service::<Postgres>::new().await?;
    let service = Service::<MySql>::on(server.database(None).await?).await?;
    let publishing = library.builder().broker(RabbitMq::new(&vhost.url())?).event::<BookLent>();
    let (outbox, publisher) = library.start(publishing).await?;
    let (_, running) = service.start(reminders(&service, &vhost.url(), true)?).await?;
    for step in 0..EVENTS {
        if step == EVENTS / 2 {
            begin_to_receive(&service).await?;
            server.kill()?;
        }
        library.enqueue(&outbox, BookLent::to(&format!("reader {step:02}"))).await?;
    }
    server.restart().await?;
    assert_applied_in_order(&service).await?;
    running.stop(TIME_LIMIT).await?;
    publisher.stop(TIME_LIMIT).await?;
    Ok(())
}
