//! A service on the facade crate under load whose process is killed, and one whose receiver is slow or fails.
//!
//! The service books appointments. Each has one reminder, a row written in the transaction of its event, and one message, an
//! HTTP request to another system. The process that is killed is this test program, with [`PROCESS`] in its environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use handover::{Data, Event, RetryPolicy};
use handover_tests::process::{BoxError, eventually};
use handover_tests::rabbit_rigs;
use handover_tests::receiver::{Answer, WebhookReceiver};
use handover_tests::server_rigs::shared;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::rabbitmq::TestVhost;
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolOptions;

/// Number of kills.
const KILLS: usize = 8;

/// Appointments that a process books before the previous one is killed.
const BOOKED_PER_PROCESS: usize = 20;

/// Longest time for a step, on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Set to the number of the process in the environment of a process that is killed.
const PROCESS: &str = "CLINIC_PROCESS";

/// What a process prints after the commit of a booking.
const BOOKED: &str = "booked ";

/// Header with the idempotency key of a message.
const KEY: &str = "idempotency-key";

#[derive(Serialize, Deserialize, Event)]
#[event(name = "appointment.booked", aggregate = "appointment")]
struct AppointmentBooked {
    #[event(key)]
    appointment: String,
}

/// The client of the system that sends messages.
struct Sms {
    http: reqwest::Client,
    url: String,
}

async fn sms(event: Event<AppointmentBooked>, sms: Data<Sms>) -> Result<(), reqwest::Error> {
    let request = sms.http.post(&sms.url).header(KEY, event.event_id()).body(event.appointment.clone());
    request.send().await?.error_for_status().map(drop)
}

/// Starts this program as the process of a test.
fn start(
    test: &str,
    number: usize,
    database: &str,
    broker: &str,
    receiver: &str,
    output: &Path,
) -> Result<Process, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "--include-ignored", "--nocapture", "--test-threads=2", test]);
    command.env(PROCESS, number.to_string()).env("DATABASE_URL", database).env("AMQP_URL", broker);
    let output: File = OpenOptions::new().create(true).append(true).open(output)?;
    command.env("SMS_URL", receiver).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Ok(Process(command.spawn()?))
}

/// A process of the service; it is killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The appointments of which a process has printed that they are booked.
fn booked(output: &Path) -> BTreeSet<String> {
    let printed = std::fs::read_to_string(output).unwrap_or_default();
    let line = |line: &str| Some(line.split_once(BOOKED)?.1.trim().to_owned());
    printed.lines().filter_map(line).collect()
}

/// Number of requests per idempotency key.
fn calls(receiver: &WebhookReceiver) -> BTreeMap<String, i64> {
    let mut calls = BTreeMap::new();
    for request in receiver.received() {
        *calls.entry(request.header(KEY).unwrap_or_default().to_owned()).or_default() += 1;
    }
    calls
}

/// The service and its tests, on one engine.
macro_rules! clinic {
    ($name:ident, $kind:expr, $engine:ty, $connection:ty, $value:literal, $broker:expr, $long:meta) => {
        mod $name {
            use handover::{Outbox, RabbitMq, at_least_once, in_transaction};
            use sqlx::Pool;

            use super::*;

            async fn remind(
                event: Event<AppointmentBooked>,
                connection: &mut $connection,
            ) -> handover::Result {
                let insert =
                    sqlx::query(concat!("INSERT INTO reminders (appointment) VALUES (", $value, ")"));
                insert.bind(&event.appointment).execute(connection).await?;
                Ok(())
            }

            async fn outbox(
                pool: &Pool<$engine>,
                broker: &str,
                url: String,
                retry: RetryPolicy,
            ) -> Result<Outbox<$engine>, BoxError> {
                let mut builder = Outbox::builder(pool.clone()).name("clinic");
                if !broker.is_empty() {
                    builder = builder.broker(RabbitMq::new(broker)?);
                }
                let outbox = builder
                    .data(Sms { http: reqwest::Client::new(), url })
                    .consumer("reminders", in_transaction(remind))
                    .consumer("sms", at_least_once(sms).retry(retry))
                    .build()?;
                Ok(outbox)
            }

            async fn book(
                pool: &Pool<$engine>,
                outbox: &Outbox<$engine>,
                appointment: String,
            ) -> Result<(), BoxError> {
                let mut tx = pool.begin().await?;
                let insert = sqlx::query(concat!("INSERT INTO appointments (id) VALUES (", $value, ")"));
                insert.bind(&appointment).execute(&mut *tx).await?;
                outbox.enqueue(&mut tx, AppointmentBooked { appointment }).await?;
                Ok(tx.commit().await?)
            }

            /// The tables of the service.
            async fn create_tables(pool: &Pool<$engine>) -> Result<(), sqlx::Error> {
                let tables = "CREATE TABLE appointments (id VARCHAR(64) PRIMARY KEY); \
                              CREATE TABLE reminders (appointment VARCHAR(64) NOT NULL)";
                sqlx::raw_sql(tables).execute(pool).await.map(drop)
            }

            async fn count(pool: &Pool<$engine>, query: &'static str) -> Result<i64, sqlx::Error> {
                sqlx::query_scalar(query).fetch_one(pool).await
            }

            /// Waits until each event is published and applied by both consumers.
            async fn settled(pool: &Pool<$engine>) -> i64 {
                eventually(TIME_LIMIT, async || {
                    let events = count(pool, "SELECT count(*) FROM appointments").await?;
                    let sent =
                        count(pool, "SELECT count(*) FROM outbox_events WHERE status = 'SENT'").await?;
                    let applied =
                        count(pool, "SELECT count(*) FROM event_consume_log WHERE status = 'SUCCESS'")
                            .await?;
                    let state = format!("{events} events, {sent} sent, {applied} applied");
                    if sent == events && applied == 2 * events { Ok(events) } else { Err(state.into()) }
                })
                .await
            }

            /// Not a test of its own: the process that [`kills_lose_and_repeat_nothing`] starts and kills.
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "it is a process of another test"]
            async fn process() -> Result<(), BoxError> {
                let Ok(number) = std::env::var(PROCESS) else { return Ok(()) };
                let pool = PoolOptions::<$engine>::new().connect(&std::env::var("DATABASE_URL")?).await?;
                let retry = RetryPolicy::consumer(Duration::from_millis(50), Duration::from_secs(1), 10);
                let outbox =
                    outbox(&pool, &std::env::var("AMQP_URL")?, std::env::var("SMS_URL")?, retry).await?;
                outbox.migrate().await?;
                let _running = outbox.start().await?;
                let clients = (0..3).map(|client| {
                    let pool = pool.clone();
                    let outbox = outbox.clone();
                    let process = number.clone();
                    tokio::spawn(async move {
                        // The last process soon books nothing more: it applies what the others have left.
                        let is_last = process == KILLS.to_string();
                        let mut number = 0;
                        while !is_last || number < BOOKED_PER_PROCESS {
                            let appointment = format!("{process}-{client}-{number}");
                            if book(&pool, &outbox, appointment.clone()).await.is_ok() {
                                println!("{BOOKED}{appointment}");
                            }
                            number += 1;
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    })
                });
                for client in clients.collect::<Vec<_>>() {
                    client.await?;
                }
                tokio::time::sleep(2 * TIME_LIMIT).await;
                Ok(())
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[$long]
            async fn kills_lose_and_repeat_nothing() -> Result<(), BoxError> {
                let database = shared($kind).await.database(None).await?;
                let broker: Option<TestVhost> = $broker;
                let broker = broker.as_ref().map_or(String::new(), |vhost| vhost.url());
                let pool = PoolOptions::<$engine>::new().connect(&database.url()).await?;
                create_tables(&pool).await?;
                let receiver =
                    WebhookReceiver::start(|_, _| Answer::Slow(Duration::from_millis(5), 200)).await;
                let folder = tempfile::tempdir()?;
                let output = folder.path().join("output");
                let test = concat!(module_path!(), "::process");
                let test = test.split_once("::").map_or(test, |(_, test)| test);
                let run =
                    |number| start(test, number, &database.url(), &broker, &receiver.url("/sms"), &output);
                let reminders = || count(&pool, "SELECT count(*) FROM reminders");
                // Two processes run at any time, so that one publishes and applies while the partitions of the killed one
                // have no owner.
                let mut older = run(0)?;
                for number in 1..=KILLS {
                    let before = reminders().await?;
                    let newer = run(number)?;
                    eventually(TIME_LIMIT, async || {
                        let begin = format!("{number}-");
                        let of_newer = booked(&output).iter().filter(|id| id.starts_with(&begin)).count();
                        let is_working = of_newer >= BOOKED_PER_PROCESS && reminders().await? > before;
                        if is_working { Ok(()) } else { Err(std::fs::read_to_string(&output)?.into()) }
                    })
                    .await;
                    drop(std::mem::replace(&mut older, newer));
                }
                let events = settled(&pool).await;

                let rows: Vec<String> =
                    sqlx::query_scalar("SELECT id FROM appointments").fetch_all(&pool).await?;
                let rows: BTreeSet<String> = rows.into_iter().collect();
                let lost: Vec<String> = booked(&output).difference(&rows).cloned().collect();
                assert_eq!(lost, [""; 0], "booked, but not stored");
                assert_eq!(count(&pool, "SELECT count(*) FROM outbox_events").await?, events);
                let announced = "SELECT count(DISTINCT e.aggregate_key) FROM outbox_events e \
                                 JOIN appointments a ON a.id = e.aggregate_key";
                assert_eq!(count(&pool, announced).await?, events, "each appointment has its event");
                assert_eq!(count(&pool, "SELECT count(*) FROM reminders").await?, events);
                let reminded = "SELECT count(DISTINCT r.appointment) FROM reminders r \
                                JOIN appointments a ON a.id = r.appointment";
                assert_eq!(count(&pool, reminded).await?, events, "each appointment has one reminder");
                assert_eq!(count(&pool, "SELECT count(*) FROM dead_letters").await?, 0);
                let calls = calls(&receiver);
                assert_eq!(calls.len(), usize::try_from(events)?, "each event has its message");
                let repeated = calls.values().filter(|calls| **calls > 1).count();
                // Only calls that a kill has interrupted are repeated: at most those in progress.
                assert!(repeated <= KILLS * 20, "{repeated} events were sent more than once");
                println!("{events} events, {repeated} of them sent more than once");
                Ok(())
            }

            #[tokio::test]
            #[$long]
            async fn slow_and_failing_receiver_is_called_once_per_attempt() -> Result<(), BoxError> {
                const EVENTS: i64 = 20;
                let database = shared($kind).await.database(None).await?;
                let pool = PoolOptions::<$engine>::new().connect(&database.url()).await?;
                create_tables(&pool).await?;
                // Slow at first, and every third request fails: never so many in a row that the consumer pauses.
                let receiver = WebhookReceiver::start(|earlier, _| {
                    let pause = Duration::from_millis(if earlier < 20 { 400 } else { 0 });
                    Answer::Slow(pause, if earlier.is_multiple_of(3) { 500 } else { 200 })
                })
                .await;
                let retry = RetryPolicy::consumer(Duration::from_millis(10), Duration::from_millis(50), 20);
                let outbox = outbox(&pool, "", receiver.url("/sms"), retry).await?;
                outbox.migrate().await?;
                let running = outbox.start().await?;
                for number in 0..EVENTS {
                    book(&pool, &outbox, format!("a-{number}")).await?;
                }
                outbox.wake();
                assert_eq!(settled(&pool).await, EVENTS);
                running.stop(TIME_LIMIT).await?;
                let attempts: Vec<(String, i64)> =
                    sqlx::query_as("SELECT event_id, attempts FROM event_consume_log WHERE consumer = 'sms'")
                        .fetch_all(&pool)
                        .await?;
                assert_eq!(calls(&receiver), attempts.into_iter().collect());
                assert_eq!(receiver.received().len(), 30, "20 events and 10 failed attempts");
                assert_eq!(count(&pool, "SELECT count(*) FROM reminders").await?, EVENTS);
                Ok(())
            }
        }
    };
}

clinic!(
    postgres,
    ServerKind::Postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    "$1",
    None,
    doc = "On the database broker."
);
clinic!(
    mariadb,
    ServerKind::MariaDb,
    sqlx::MySql,
    sqlx::MySqlConnection,
    "?",
    Some(rabbit_rigs::shared().await.vhost().await?),
    ignore = "long"
);
clinic!(
    postgres_and_rabbitmq,
    ServerKind::Postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    "$1",
    Some(rabbit_rigs::shared().await.vhost().await?),
    ignore = "long"
);
