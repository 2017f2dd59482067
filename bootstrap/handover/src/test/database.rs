//! A database for one test.

use handover_outbox::BoxFuture;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use handover_outbox::ports::Clock as _;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use handover_system::SystemClock;
use sqlx::Pool;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use sqlx::{AssertSqlSafe, Connection as _};

use super::TestError;

/// A database for one test, with a pool on it: on PostgreSQL a schema, on MySQL and MariaDB a database of the server, on SQLite a
/// file in a temporary folder. It is empty; a schema is the `search_path` of each connection.
///
/// Tests may run at the same time, each in its own. [`close`](TestDatabase::close) removes it. What a failed test leaves on a
/// server stays for an hour, for inspection; then the next `create` removes it. The folder of SQLite is removed in any case.
///
/// ```
/// use handover::Outbox;
/// use handover::test::TestDatabase;
/// use sqlx::Sqlite;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = TestDatabase::<Sqlite>::create().await?;
/// let outbox = Outbox::builder(database.pool().clone()).build()?;
/// outbox.migrate().await?;
/// let running = outbox.start().await?;
/// // the test ...
/// running.stop(std::time::Duration::from_secs(10)).await?;
/// database.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct TestDatabase<DB: sqlx::Database> {
    pool: Pool<DB>,
    /// Removes the database.
    remove: Box<dyn FnOnce() -> BoxFuture<'static, Result<(), TestError>> + Send + Sync>,
}

impl<DB: sqlx::Database> TestDatabase<DB> {
    /// A pool on the database, for the service and for [`Outbox::builder`](crate::Outbox::builder).
    pub fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// Closes the pool and removes the database. Stop the outbox before.
    pub async fn close(self) -> Result<(), TestError> {
        self.pool.close().await;
        (self.remove)().await
    }
}

#[cfg(feature = "sqlite")]
impl TestDatabase<sqlx::Sqlite> {
    /// Creates a database file.
    pub async fn create() -> Result<TestDatabase<sqlx::Sqlite>, TestError> {
        let folder = tempfile::tempdir()?;
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(folder.path().join("test.db"))
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
        let pool = Pool::connect_with(options).await?;
        let remove = Box::new(|| -> BoxFuture<_> { Box::pin(async move { Ok(folder.close()?) }) });
        Ok(TestDatabase { pool, remove })
    }
}

/// Begin of the names of schemas; the time of the creation in seconds and a random number follow.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const PREFIX: &str = "handover_test_";

/// Age at which a schema is that of a test that has ended.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const MAX_AGE_SECONDS: i64 = 60 * 60;

#[cfg(any(feature = "mysql", feature = "postgres"))]
fn new_name(now: i64) -> Result<String, TestError> {
    let random = u64::from_ne_bytes(handover_system::secret_bytes()?);
    Ok(format!("{PREFIX}{now}_{random:016x}"))
}

/// Whether a test whose schema has this name has ended.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn is_left(name: &str, now: i64) -> bool {
    let created_at = || name.strip_prefix(PREFIX)?.split_once('_')?.0.parse::<i64>().ok();
    created_at().is_some_and(|created_at| now - created_at > MAX_AGE_SECONDS)
}

/// A schema per test on a server: how connection options select it, the query for the names of all schemas, and what the
/// statement that drops one ends with.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! on_server {
    ($engine:ty, $options:ty, $select:expr, $names:literal, $cascade:literal) => {
        impl TestDatabase<$engine> {
            /// Creates a schema on the server of this URL. The user needs the right to create schemas.
            pub async fn create(url: &str) -> Result<TestDatabase<$engine>, TestError> {
                let server: $options = url.parse()?;
                let now = SystemClock.now().timestamp();
                let name = new_name(now)?;
                let mut connection = <$engine as sqlx::Database>::Connection::connect_with(&server).await?;
                let names: Vec<String> = sqlx::query_scalar($names).fetch_all(&mut connection).await?;
                for left in names.iter().filter(|name| is_left(name, now)) {
                    // An error is ignored: another test may drop it, too, or the user may not have the right.
                    let _ = Self::drop_schema(&mut connection, left).await;
                }
                sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {name}"))).execute(&mut connection).await?;
                connection.close().await?;
                let select: fn($options, &str) -> $options = $select;
                let pool = Pool::connect_with(select(server.clone(), &name)).await?;
                let remove = Box::new(|| -> BoxFuture<_> {
                    Box::pin(async move {
                        let mut connection =
                            <$engine as sqlx::Database>::Connection::connect_with(&server).await?;
                        Self::drop_schema(&mut connection, &name).await?;
                        Ok(connection.close().await?)
                    })
                });
                Ok(TestDatabase { pool, remove })
            }

            async fn drop_schema(
                connection: &mut <$engine as sqlx::Database>::Connection,
                name: &str,
            ) -> Result<(), sqlx::Error> {
                let sql = format!(concat!("DROP SCHEMA IF EXISTS {}", $cascade), name);
                sqlx::query(AssertSqlSafe(sql)).execute(connection).await.map(drop)
            }
        }
    };
}

#[cfg(feature = "mysql")]
on_server!(
    sqlx::MySql,
    sqlx::mysql::MySqlConnectOptions,
    |server, schema| server.database(schema),
    "SELECT CAST(schema_name AS CHAR) FROM information_schema.schemata",
    ""
);

#[cfg(feature = "postgres")]
on_server!(
    sqlx::Postgres,
    sqlx::postgres::PgConnectOptions,
    |server, schema| server.options([("search_path", schema)]),
    "SELECT nspname::text FROM pg_namespace",
    " CASCADE"
);
