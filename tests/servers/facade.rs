//! The facade crate on MariaDB, PostgreSQL and RabbitMQ: events in the service's own transaction, and the lent connection of
//! its handlers. The crate's own tests, on SQLite, test everything that does not depend on the server.

mod clinic;
mod kills;
mod prefix;
mod receiving;
mod refusals;
mod statements;
mod test_kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{FromArgMatches as _, Subcommand as _};
use futures_util::future::try_join_all;
use handover::cli::Commands;
use handover::{Data, Database, EnqueueError, Event, HandlerError, Outbox, RabbitMq, RetryPolicy, Role};
use handover_tests::rabbit_rigs;
use handover_tests::server_rigs::shared;
use handover_tests::servers::database::{ServerKind, TestDatabase};
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolOptions;
use sqlx::{Connection as _, Pool};
use uuid::Uuid;

/// Longest time until events are settled, on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

type TestResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: Uuid,
    reader: String,
}

impl BookLent {
    fn to(reader: &str) -> BookLent {
        BookLent { book: Uuid::from_u128(1), reader: reader.to_owned() }
    }
}

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(name = "shelf.moved", aggregate = "shelf")]
struct ShelfMoved {
    #[event(key)]
    shelf: String,
    step: usize,
}

/// Parses a command line of operators.
fn command(line: &str) -> Result<Commands, clap::Error> {
    let program = Commands::augment_subcommands(clap::Command::new("library"));
    let words = std::iter::once("library").chain(line.split(' '));
    Commands::from_arg_matches(&program.try_get_matches_from(words)?)
}

/// Whether a transaction can be repeated, after a deadlock or a serialization failure.
fn is_transient(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<EnqueueError>().is_some_and(EnqueueError::is_transient)
}

/// Two attempts, with a short pause.
fn one_retry() -> RetryPolicy {
    RetryPolicy::consumer(Duration::from_millis(1), Duration::from_millis(1), 1)
}

/// An empty database with a table for effects, and a pool of a service.
struct Service<DB: Database> {
    pool: Pool<DB>,
    _database: TestDatabase,
}

/// The tests, for one kind of server.
macro_rules! on_server {
    ($name:ident, $kind:expr, $engine:ty, $connection:ty, $insert:literal) => {
        mod $name {
            use handover::{Builder, Running, at_least_once, in_transaction};

            use super::*;

            impl Service<$engine> {
                pub(super) async fn new() -> Result<Service<$engine>, Box<dyn std::error::Error + Send + Sync>> {
                    Service::<$engine>::on(shared($kind).await.database(None).await?).await
                }

                pub(super) async fn on(
                    database: TestDatabase,
                ) -> Result<Service<$engine>, Box<dyn std::error::Error + Send + Sync>> {
                    let pool = PoolOptions::new().connect(&database.url()).await?;
                    sqlx::raw_sql("CREATE TABLE effects (event_id VARCHAR(64) NOT NULL, note VARCHAR(64) NOT NULL)")
                        .execute(&pool)
                        .await?;
                    Ok(Service { pool, _database: database })
                }

                pub(super) fn builder(&self) -> Builder<$engine> {
                    Outbox::builder(self.pool.clone()).name("library")
                }

                pub(super) async fn start(
                    &self,
                    builder: Builder<$engine>,
                ) -> Result<(Outbox<$engine>, Running<$engine>), Box<dyn std::error::Error + Send + Sync>> {
                    let outbox = builder.build()?;
                    outbox.migrate().await?;
                    let running = outbox.start().await?;
                    Ok((outbox, running))
                }

                pub(super) async fn enqueue(&self, outbox: &Outbox<$engine>, event: BookLent) -> TestResult {
                    let mut tx = self.pool.begin().await?;
                    outbox.enqueue(&mut tx, event).await?;
                    Ok(tx.commit().await?)
                }

                /// Waits until this many records of consumers are settled, and returns their states.
                pub(super) async fn settled(&self, records: usize) -> Result<Vec<(String, i64)>, sqlx::Error> {
                    let begun = Instant::now();
                    loop {
                        let found: Vec<(String, i64)> = sqlx::query_as(
                            "SELECT status, attempts FROM event_consume_log WHERE status IN ('SUCCESS', 'DEAD') ORDER BY id",
                        )
                        .fetch_all(&self.pool)
                        .await?;
                        if found.len() >= records || begun.elapsed() > TIME_LIMIT {
                            return Ok(found);
                        }
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }

                pub(super) async fn notes(&self) -> Result<Vec<String>, sqlx::Error> {
                    sqlx::query_scalar("SELECT note FROM effects").fetch_all(&self.pool).await
                }
            }

            async fn note(event: &Event<BookLent>, connection: &mut $connection) -> Result<(), sqlx::Error> {
                let insert = sqlx::query($insert).bind(event.event_id()).bind(&event.reader);
                insert.execute(connection).await.map(drop)
            }

            async fn remind(event: Event<BookLent>, connection: &mut $connection) -> handover::Result {
                Ok(note(&event, connection).await?)
            }

            #[tokio::test]
            async fn committed_event_has_its_effect_once_and_rolled_back_event_none() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let builder = service.builder().consumer("reminders", in_transaction(remind));
                let (outbox, running) = service.start(builder).await?;
                let mut tx = service.pool.begin().await?;
                outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
                tx.rollback().await?;
                service.enqueue(&outbox, BookLent::to("ben")).await?;
                assert_eq!(service.settled(1).await?, [("SUCCESS".to_owned(), 1)]);
                running.stop(TIME_LIMIT).await?;
                assert_eq!(service.notes().await?, ["ben"]);
                Ok(())
            }

            #[tokio::test]
            async fn concurrent_transactions_without_a_lock_are_applied_in_the_order_of_their_numbers() -> TestResult {
                const EVENTS: usize = 80;
                let service = Service::<$engine>::new().await?;
                let builder = service.builder().consumer("reminders", in_transaction(remind));
                let (outbox, running) = service.start(builder).await?;
                let writer = || async {
                    let mut left = EVENTS / 8;
                    while left > 0 {
                        match service.enqueue(&outbox, BookLent::to("ann")).await {
                            Ok(()) => left -= 1,
                            // The server's isolation level may end one of two concurrent transactions.
                            Err(error) if is_transient(&*error) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(())
                };
                try_join_all((0..8).map(|_| writer())).await?;
                assert_eq!(service.settled(EVENTS).await?.len(), EVENTS);
                running.stop(TIME_LIMIT).await?;
                let numbers: Vec<i64> = (1..=EVENTS as i64).collect();
                for table in ["outbox_events", "event_consume_log"] {
                    let query = sqlx::AssertSqlSafe(format!("SELECT aggregate_seq FROM {table} ORDER BY id"));
                    let found: Vec<i64> = sqlx::query_scalar(query).fetch_all(&service.pool).await?;
                    assert_eq!(found, numbers, "{table}");
                }
                Ok(())
            }

            #[tokio::test]
            async fn open_transaction_locks_no_event_that_is_committed_and_no_other_aggregate() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let outbox = service.builder().event::<ShelfMoved>().build()?;
                outbox.migrate().await?;
                let moved = |shelf: &str, step| ShelfMoved { shelf: shelf.to_owned(), step };
                let mut first = service.pool.begin().await?;
                outbox.enqueue(&mut first, moved("a", 1)).await?;
                first.commit().await?;
                let event: String =
                    sqlx::query_scalar("SELECT event_id FROM outbox_events").fetch_one(&service.pool).await?;
                // The default of the server.
                let level = match $kind {
                    ServerKind::MariaDb => "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                    ServerKind::Postgres => "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
                };
                let mut connections = (service.pool.acquire().await?, service.pool.acquire().await?);
                sqlx::raw_sql(level).execute(&mut *connections.0).await?;
                sqlx::raw_sql(level).execute(&mut *connections.1).await?;
                let mut left = connections.0.begin().await?;
                let mut right = connections.1.begin().await?;
                outbox.enqueue(&mut left, moved("a", 2)).await?;
                for (shelf, other) in [("b", "c"), ("d", "e"), ("f", "g")] {
                    outbox.enqueue(&mut left, moved(shelf, 1)).await?;
                    outbox.enqueue(&mut right, moved(other, 1)).await?;
                }
                // As a relay does after the confirmation of the broker.
                let settle = format!("UPDATE outbox_events SET status = 'SENT' WHERE event_id = '{event}'");
                let settling = sqlx::raw_sql(sqlx::AssertSqlSafe(settle)).execute(&service.pool);
                tokio::time::timeout(TIME_LIMIT, settling).await??;
                left.commit().await?;
                right.commit().await?;
                let numbers: Vec<i64> = sqlx::query_scalar("SELECT aggregate_seq FROM outbox_events ORDER BY id")
                    .fetch_all(&service.pool)
                    .await?;
                assert_eq!(numbers, [1, 2, 1, 1, 1, 1, 1, 1]);
                Ok(())
            }

            /// A session without strict mode would cut it off.
            #[tokio::test]
            async fn payload_that_is_longer_than_its_column_is_refused() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let outbox = service.builder().event::<BookLent>().build()?;
                outbox.migrate().await?;
                let mut tx = service.pool.begin().await?;
                let enqueued = outbox.enqueue(&mut tx, BookLent::to(&"x".repeat(65_536))).await;
                match ($kind, enqueued) {
                    (ServerKind::MariaDb, Err(refused)) => {
                        let why = "the payload of book.lent has 65595 bytes, and the column has at most 65535";
                        assert!(refused.to_string().contains(why) && !refused.is_transient(), "{refused}");
                    }
                    (ServerKind::Postgres, Ok(_)) => {}
                    (_, other) => panic!("{other:?}"),
                }
                Ok(())
            }

            #[tokio::test]
            async fn connection_outside_of_a_transaction_is_refused() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let outbox = service.builder().event::<BookLent>().build()?;
                let mut connection = service.pool.acquire().await?;
                let refused = outbox.enqueue(&mut connection, BookLent::to("ann")).await.unwrap_err();
                assert!(refused.to_string().contains("in no transaction"), "{refused}");
                Ok(())
            }

            async fn change(connection: &mut $connection, id: i32) -> Result<(), sqlx::Error> {
                let update = sqlx::AssertSqlSafe(format!("UPDATE pair SET n = n + 1 WHERE id = {id}"));
                sqlx::raw_sql(update).execute(connection).await.map(drop)
            }

            /// MariaDB rolls the transaction back, and would commit the event by itself; PostgreSQL executes nothing more.
            #[tokio::test]
            async fn event_is_refused_after_a_deadlock_whose_error_is_ignored() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let outbox = service.builder().event::<BookLent>().build()?;
                outbox.migrate().await?;
                sqlx::raw_sql("CREATE TABLE pair (id INT PRIMARY KEY, n INT NOT NULL)").execute(&service.pool).await?;
                sqlx::raw_sql("INSERT INTO pair VALUES (1, 0), (2, 0)").execute(&service.pool).await?;
                let mut left = service.pool.begin().await?;
                let mut right = service.pool.begin().await?;
                change(&mut left, 1).await?;
                change(&mut right, 2).await?;
                let (of_left, of_right) = tokio::join!(change(&mut left, 2), change(&mut right, 1));
                let mut ended = match (of_left, of_right) {
                    (Err(_), Ok(())) => left,
                    (Ok(()), Err(_)) => right,
                    other => panic!("one of two transactions that wait for each other fails: {other:?}"),
                };
                let refused = outbox.enqueue(&mut ended, BookLent::to("ann")).await.unwrap_err();
                assert_eq!(refused.is_transient(), $kind == ServerKind::MariaDb, "{refused}");
                ended.commit().await?;
                let events: i64 =
                    sqlx::query_scalar("SELECT count(*) FROM outbox_events").fetch_one(&service.pool).await?;
                assert_eq!(events, 0);
                Ok(())
            }

            /// Commits a nested transaction, then fails.
            async fn nest(event: Event<BookLent>, connection: &mut $connection) -> handover::Result {
                let mut nested = connection.begin().await?;
                note(&event, &mut nested).await?;
                nested.commit().await?;
                Err(HandlerError::permanent("after the nested commit"))
            }

            #[tokio::test]
            async fn nested_transaction_of_a_failed_handler_leaves_no_row() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let builder = service.builder().consumer("reminders", in_transaction(nest));
                let (outbox, running) = service.start(builder).await?;
                service.enqueue(&outbox, BookLent::to("ann")).await?;
                assert_eq!(service.settled(1).await?, [("DEAD".to_owned(), 1)]);
                running.stop(TIME_LIMIT).await?;
                assert_eq!(service.notes().await?, [""; 0]);
                Ok(())
            }

            /// Ignores the error of a statement.
            async fn ignore(event: Event<BookLent>, connection: &mut $connection) -> handover::Result {
                note(&event, connection).await?;
                let _ = sqlx::query("SELECT * FROM missing").execute(&mut *connection).await;
                Ok(())
            }

            /// PostgreSQL aborts the transaction, so that nothing is recorded; MariaDB keeps the other statements.
            #[tokio::test]
            async fn ignored_error_of_a_statement_leaves_no_effect_without_its_record() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let functions = in_transaction(ignore).retry(one_retry());
                let (outbox, running) = service.start(service.builder().consumer("reminders", functions)).await?;
                service.enqueue(&outbox, BookLent::to("ann")).await?;
                let (records, notes) = match $kind {
                    ServerKind::MariaDb => ([("SUCCESS".to_owned(), 1)], 1),
                    ServerKind::Postgres => ([("DEAD".to_owned(), 2)], 0),
                };
                assert_eq!(service.settled(1).await?, records);
                running.stop(TIME_LIMIT).await?;
                assert_eq!(service.notes().await?.len(), notes);
                Ok(())
            }

            /// Keeps its connection, except at the first call: then the group is divided into single events.
            async fn hang(
                _: Event<BookLent>,
                _: &mut $connection,
                calls: Data<Arc<AtomicUsize>>,
            ) -> handover::Result {
                if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                    return Err(HandlerError::retryable("not yet"));
                }
                std::future::pending().await
            }

            async fn see(_: Event<ShelfMoved>, is_seen: Data<Arc<AtomicBool>>) -> handover::Result {
                is_seen.store(true, Ordering::SeqCst);
                Ok(())
            }

            #[tokio::test]
            async fn handlers_that_hang_leave_connections_to_the_relay() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let is_seen = Arc::new(AtomicBool::new(false));
                let calls = Arc::new(AtomicUsize::new(0));
                let hanging = in_transaction(hang).timeout(2 * TIME_LIMIT);
                let builder = service.builder().data(Arc::clone(&is_seen)).data(Arc::clone(&calls));
                let builder = builder.consumer("reminders", hanging);
                let (outbox, running) = service.start(builder.consumer("shelves", at_least_once(see))).await?;
                for book in 0..20 {
                    let (book, reader) = (Uuid::from_u128(book), "ann".to_owned());
                    service.enqueue(&outbox, BookLent { book, reader }).await?;
                }
                // The pool has five connections, two of which are for the relay.
                while calls.load(Ordering::SeqCst) < 4 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let mut tx = service.pool.begin().await?;
                outbox.enqueue(&mut tx, ShelfMoved { shelf: "a".to_owned(), step: 1 }).await?;
                tx.commit().await?;
                let begun = Instant::now();
                while !is_seen.load(Ordering::SeqCst) {
                    assert!(begun.elapsed() < TIME_LIMIT, "the relay waits for the handlers");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                running.stop(TIME_LIMIT).await?;
                Ok(())
            }

            async fn mail(event: Event<BookLent>) -> Result<(), std::io::Error> {
                match event.reader.as_str() {
                    "ann" => Err(std::io::Error::other("no connection")),
                    _ => Ok(()),
                }
            }

            #[tokio::test]
            async fn external_function_is_retried_until_the_event_is_a_dead_letter() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let builder = service.builder().consumer("mail", at_least_once(mail).retry(one_retry()).unordered());
                let (outbox, running) = service.start(builder).await?;
                service.enqueue(&outbox, BookLent::to("ann")).await?;
                service.enqueue(&outbox, BookLent::to("ben")).await?;
                let mut records = service.settled(2).await?;
                records.sort();
                assert_eq!(records, [("DEAD".to_owned(), 2), ("SUCCESS".to_owned(), 1)]);
                running.stop(TIME_LIMIT).await?;
                Ok(())
            }

            async fn moved(event: Event<ShelfMoved>, connection: &mut $connection) -> handover::Result {
                let note = format!("{} {}", event.shelf, event.step);
                sqlx::query($insert).bind(event.event_id()).bind(note).execute(connection).await?;
                Ok(())
            }

            /// Keys that a collation of the database could take for one another.
            #[tokio::test]
            async fn events_of_similar_text_keys_are_applied_once_and_in_the_order_of_each() -> TestResult {
                const KEYS: [&str; 4] = ["a1", "A1", "\u{e4}1", "7f0c3a52-6b1e-4d0a-9c57-2f9d0f6f3f10"];
                let service = Service::<$engine>::new().await?;
                let builder = service.builder().consumer("shelves", in_transaction(moved));
                let (outbox, running) = service.start(builder).await?;
                for step in 1..=3 {
                    for shelf in KEYS {
                        let mut tx = service.pool.begin().await?;
                        outbox.enqueue(&mut tx, ShelfMoved { shelf: shelf.to_owned(), step }).await?;
                        tx.commit().await?;
                    }
                }
                running.drain().await?;
                for event in running.enqueued::<ShelfMoved>().await? {
                    running.deliver_again(event.event_id()).await?;
                }
                running.stop(TIME_LIMIT).await?;
                let notes = service.notes().await?;
                assert_eq!(notes.len(), 3 * KEYS.len(), "{notes:?}");
                for shelf in KEYS {
                    let of_shelf: Vec<&String> = notes.iter().filter(|note| note.starts_with(shelf)).collect();
                    assert_eq!(of_shelf, [1, 2, 3].map(|step| format!("{shelf} {step}")).iter().collect::<Vec<_>>());
                }
                Ok(())
            }

            /// Fails until it is repaired.
            async fn repair(
                event: Event<BookLent>,
                connection: &mut $connection,
                is_repaired: Data<Arc<AtomicBool>>,
            ) -> handover::Result {
                if !is_repaired.load(Ordering::SeqCst) {
                    return Err(HandlerError::permanent("not repaired"));
                }
                Ok(note(&event, connection).await?)
            }

            #[tokio::test]
            async fn commands_list_redrive_and_replay_through_rabbitmq() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let vhost = rabbit_rigs::shared().await.vhost().await?;
                let is_repaired = Arc::new(AtomicBool::new(false));
                let builder = service.builder().broker(RabbitMq::new(&vhost.url())?).data(Arc::clone(&is_repaired));
                let (outbox, running) = service.start(builder.consumer("reminders", in_transaction(repair))).await?;
                service.enqueue(&outbox, BookLent::to("ann")).await?;
                assert_eq!(service.settled(1).await?, [("DEAD".to_owned(), 1)]);
                is_repaired.store(true, Ordering::SeqCst);
                for line in [
                    "queues",
                    "dlq list --queue library.reminders",
                    "dlq replay --queue library.reminders --reason repaired",
                    "outbox redrive --status sent --reason again",
                    "audit list --changes",
                ] {
                    command(line)?.run(&outbox).await?;
                }
                running.drain().await?;
                running.stop(TIME_LIMIT).await?;
                assert_eq!(service.notes().await?, ["ann"]);
                let recorded: i64 = sqlx::query_scalar(
                    "SELECT count(*) FROM outbox_audit_log WHERE reason IN ('repaired', 'again') AND changed = 1",
                )
                .fetch_one(&service.pool)
                .await?;
                assert_eq!(recorded, 2);
                Ok(())
            }

            /// The service enqueues in one process, and another one publishes and applies.
            #[tokio::test]
            async fn process_without_roles_wakes_the_relay_of_another_process() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let sending = service.builder().event::<BookLent>().roles([]);
                let (outbox, sender) = service.start(sending).await?;
                let applying = service.builder().consumer("reminders", in_transaction(remind));
                let (_, running) =
                    service.start(applying.roles([Role::Relay, Role::Consumers])).await?;
                for reader in ["ann", "ben", "cem"] {
                    service.enqueue(&outbox, BookLent::to(reader)).await?;
                }
                assert_eq!(service.settled(3).await?.len(), 3);
                sender.stop(TIME_LIMIT).await?;
                running.stop(TIME_LIMIT).await?;
                assert_eq!(service.notes().await?, ["ann", "ben", "cem"]);
                Ok(())
            }

            #[tokio::test]
            async fn events_travel_through_rabbitmq() -> TestResult {
                let service = Service::<$engine>::new().await?;
                let vhost = rabbit_rigs::shared().await.vhost().await?;
                let builder = service.builder().broker(RabbitMq::new(&vhost.url())?);
                let (outbox, running) =
                    service.start(builder.consumer("reminders", in_transaction(remind))).await?;
                for reader in ["ann", "ben", "cem"] {
                    service.enqueue(&outbox, BookLent::to(reader)).await?;
                }
                assert_eq!(service.settled(3).await?.len(), 3);
                running.stop(TIME_LIMIT).await?;
                assert_eq!(service.notes().await?, ["ann", "ben", "cem"]);
                let messages: i64 =
                    sqlx::query_scalar("SELECT count(*) FROM outbox_broker_queues").fetch_one(&service.pool).await?;
                assert_eq!(messages, 0);
                Ok(())
            }
        }
    };
}

on_server!(
    mariadb,
    ServerKind::MariaDb,
    sqlx::MySql,
    sqlx::MySqlConnection,
    "INSERT INTO effects (event_id, note) VALUES (?, ?)"
);
on_server!(
    postgres,
    ServerKind::Postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    "INSERT INTO effects (event_id, note) VALUES ($1, $2)"
);
