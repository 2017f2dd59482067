//! A lending library with its own tables, on an SQLite file.

use std::sync::Once;
use std::time::Duration;

use handover::test::TestDatabase;
use handover::{Builder, Event, Outbox, Running};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

pub(crate) type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Time limit for a stop.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Longest time until an event is settled, on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
pub(crate) struct BookLent {
    #[event(key)]
    pub(crate) book: i64,
    pub(crate) reader: String,
}

impl BookLent {
    pub(crate) fn to(reader: &str) -> BookLent {
        BookLent { book: 1, reader: reader.to_owned() }
    }
}

/// Enables spans and events in all threads. `tracing` asks only the subscriber of the thread that first comes to a span if no
/// more than one subscriber exists: without this one, a test that records nothing could disable a span for one that does.
fn enable_tracing() {
    static ENABLED: Once = Once::new();
    ENABLED.call_once(|| drop(tracing::subscriber::set_global_default(tracing_subscriber::registry())));
}

/// The database file with the tables of the library and of the outbox, and a pool of the service.
pub(crate) struct Library {
    pub(crate) pool: SqlitePool,
    _database: TestDatabase<Sqlite>,
}

impl Library {
    pub(crate) async fn open() -> Result<Library, Box<dyn std::error::Error>> {
        enable_tracing();
        let database = TestDatabase::<Sqlite>::create().await?;
        let pool = database.pool().clone();
        sqlx::raw_sql(
            "CREATE TABLE books (id INTEGER PRIMARY KEY, reader TEXT); INSERT INTO books (id) VALUES (1), (2); \
             CREATE TABLE effects (event_id TEXT NOT NULL, note TEXT NOT NULL)",
        )
        .execute(&pool)
        .await?;
        Ok(Library { pool, _database: database })
    }

    pub(crate) fn builder(&self) -> Builder<Sqlite> {
        Outbox::builder(self.pool.clone()).name("library")
    }

    /// Builds, migrates and starts the outbox.
    pub(crate) async fn start(
        &self,
        builder: Builder<Sqlite>,
    ) -> Result<(Outbox<Sqlite>, Running<Sqlite>), Box<dyn std::error::Error>> {
        let outbox = builder.build()?;
        outbox.migrate().await?;
        let running = outbox.start().await?;
        Ok((outbox, running))
    }

    /// Lends a book in the service's own transaction.
    pub(crate) async fn lend(&self, outbox: &Outbox<Sqlite>, event: BookLent) -> TestResult {
        let mut tx = self.pool.begin().await?;
        sqlx::query("UPDATE books SET reader = ? WHERE id = ?")
            .bind(&event.reader)
            .bind(event.book)
            .execute(&mut *tx)
            .await?;
        outbox.enqueue(&mut tx, event).await?;
        Ok(tx.commit().await?)
    }

    /// The notes of the effects, in the order of their commits.
    pub(crate) async fn notes(&self) -> Result<Vec<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT note FROM effects ORDER BY rowid").fetch_all(&self.pool).await
    }

    pub(crate) async fn count(&self, query: &'static str) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(query).fetch_one(&self.pool).await
    }

    /// Waits until this many records of consumers have this status.
    #[allow(clippy::disallowed_methods, reason = "the outbox runs in real time")]
    pub(crate) async fn consumed(&self, status: &str, records: i64) -> TestResult {
        let waiting = async {
            loop {
                let count: i64 =
                    sqlx::query_scalar("SELECT count(*) FROM event_consume_log WHERE status = ?")
                        .bind(status)
                        .fetch_one(&self.pool)
                        .await?;
                if count == records {
                    return Ok::<_, sqlx::Error>(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, waiting).await??;
        Ok(())
    }
}

/// Records an effect in the transaction of an event.
pub(crate) async fn note(
    connection: &mut SqliteConnection,
    event_id: &str,
    note: &str,
) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO effects (event_id, note) VALUES (?, ?)").bind(event_id).bind(note);
    insert.execute(connection).await.map(drop)
}
