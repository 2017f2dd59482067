//! The helpers for tests of a service: a schema per test, and the clock that a test advances.

use std::sync::{Mutex, MutexGuard, PoisonError};

use handover::at_least_once;
use handover::test::{ManualClock, TestDatabase};

use super::*;

async fn remind(event: Event<BookLent>, reminded: Data<Reminded>) -> handover::Result {
    reminded.readers().push(event.reader.clone());
    Ok(())
}

/// The readers who were reminded.
#[derive(Clone, Default)]
struct Reminded(Arc<Mutex<Vec<String>>>);

impl Reminded {
    fn readers(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tests, for one kind of server. `$schemas` counts the schemas with a name; `$schema` is the current one.
macro_rules! on_server {
    ($name:ident, $kind:expr, $engine:ty, $schemas:literal, $schema:literal) => {
        mod $name {
            use super::*;

            #[tokio::test]
            async fn schemas_of_tests_are_separate_and_removed_and_old_ones_are_removed_too() -> TestResult {
                let server = shared($kind).await.database(None).await?;
                let pool = Pool::<$engine>::connect(&server.url()).await?;
                let schemas = async |name: &str| {
                    sqlx::query_scalar::<_, i64>($schemas).bind(name).fetch_one(&pool).await
                };
                // Of a test that failed an hour ago, and of one that runs.
                let now = chrono::Utc::now().timestamp();
                let old = format!("handover_test_{}_{:016x}", now - 60 * 60 - 1, std::process::id());
                let recent = format!("handover_test_{}_{:016x}", now - 60, std::process::id());
                for name in [&old, &recent] {
                    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {name}"))).execute(&pool).await?;
                }
                let one = TestDatabase::<$engine>::create(&server.url()).await?;
                let other = TestDatabase::<$engine>::create(&server.url()).await?;
                assert_eq!((schemas(&old).await?, schemas(&recent).await?), (0, 1));
                for database in [&one, &other] {
                    let outbox = Outbox::builder(database.pool().clone()).event::<BookLent>().build()?;
                    outbox.migrate().await?;
                    let running = outbox.start().await?;
                    let mut tx = database.pool().begin().await?;
                    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
                    tx.commit().await?;
                    running.assert_enqueued(&[BookLent::to("ann")]).await;
                    running.stop(TIME_LIMIT).await?;
                }
                let mut names = Vec::new();
                for database in [one, other] {
                    let name: String = sqlx::query_scalar($schema).fetch_one(database.pool()).await?;
                    assert!(name.starts_with("handover_test_"), "{name}");
                    database.close().await?;
                    names.push(name);
                }
                assert_ne!(names[0], names[1]);
                for name in names {
                    assert_eq!(schemas(&name).await?, 0, "{name}");
                }
                sqlx::query(sqlx::AssertSqlSafe(format!("DROP SCHEMA {recent}"))).execute(&pool).await?;
                Ok(())
            }

            #[tokio::test]
            async fn event_is_due_by_the_clock_of_the_test_and_not_by_that_of_the_server() -> TestResult {
                let server = shared($kind).await.database(None).await?;
                let database = TestDatabase::<$engine>::create(&server.url()).await?;
                let clock = ManualClock::new("2000-01-01T00:00:00Z".parse()?);
                let reminded = Reminded::default();
                let outbox = Outbox::builder(database.pool().clone())
                    .clock(&clock)
                    .data(reminded.clone())
                    .consumer("reminders", at_least_once(remind))
                    .build()?;
                outbox.migrate().await?;
                let running = outbox.start().await?;
                let day = Duration::from_secs(24 * 60 * 60);
                let mut tx = database.pool().begin().await?;
                outbox.enqueue_at(&mut tx, BookLent::to("ann"), clock.now() + 2 * day).await?;
                tx.commit().await?;
                for readers in [&[][..], &[], &["ann"]] {
                    running.drain().await?;
                    assert_eq!(*reminded.readers(), readers);
                    clock.advance(day);
                }
                running.stop(TIME_LIMIT).await?;
                Ok(database.close().await?)
            }
        }
    };
}

on_server!(
    mariadb,
    ServerKind::MariaDb,
    sqlx::MySql,
    "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?",
    "SELECT database()"
);
on_server!(
    postgres,
    ServerKind::Postgres,
    sqlx::Postgres,
    "SELECT count(*) FROM pg_namespace WHERE nspname = $1",
    "SELECT current_schema()::text"
);
