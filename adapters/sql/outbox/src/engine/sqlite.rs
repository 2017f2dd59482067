//! SQLite: one writer connection behind a fair queue, and a pool of readers.
//!
//! **Invariant:** every write, and every read that must wait for the end of an earlier write, uses the one writer
//! connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::{StoreError, SystemFaultKind};
use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Arguments as _, ConnectOptions as _, Pool, Row as _, Sqlite, TypeInfo as _, ValueRef as _};

use crate::connection::{COMMIT, Connection, Engine};
use crate::dialect::{Claiming, Dialect};
use crate::error::{ErrorClass, store_error};
use crate::migrations::{MigrationFile, Migrations};
use crate::row::Row;
use crate::value::{Value, time_text};
use crate::wakeup::CommitNotifier;

/// Time limit for waiting for a connection of the pool, or for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;
/// Pause between attempts to create a file that other processes are creating too.
const CREATE_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Location of an SQLite database.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    path: PathBuf,
}

impl SqliteOptions {
    /// A database file. If it does not exist, it is created; on Unix only its owner may read and write it.
    pub fn file(path: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions { path: path.into() }
    }

    /// Parses a URL: `sqlite://handover.db`, `sqlite:///var/lib/handover.db`, `sqlite:handover.db`.
    pub fn from_url(url: &str) -> Option<SqliteOptions> {
        let path = url.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("//").unwrap_or(path);
        // An in-memory database is rejected: each connection would open a separate one.
        let is_file = !path.is_empty() && !path.starts_with(":memory:") && !path.contains('?');
        is_file.then(|| SqliteOptions::file(path))
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

pub(crate) struct SqliteEngine {
    writer: Pool<Sqlite>,
    /// Whether the writer may be in a transaction; if so, the transaction is rolled back when the writer returns to the
    /// pool.
    in_transaction: Arc<AtomicBool>,
    readers: Pool<Sqlite>,
}

impl SqliteEngine {
    pub(crate) async fn open(options: &SqliteOptions) -> Result<SqliteEngine, StoreError> {
        create_private(&options.path);
        let connect = SqliteConnectOptions::new()
            .filename(&options.path)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Full)
            .statement_cache_capacity(256)
            // The driver's thread sends rows one by one; the buffer holds all rows of a relay window.
            .row_buffer_size(256)
            .pragma("cache_size", "-16384")
            .pragma("mmap_size", "268435456")
            .pragma("temp_store", "MEMORY")
            .disable_statement_logging();
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(BUSY_TIMEOUT)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
        };
        let in_transaction = Arc::new(AtomicBool::new(false));
        let open = in_transaction.clone();
        let writer = pool(1)
            // The driver's own transactions are not rolled back when a future is dropped in `begin`.
            .after_release(move |connection, _| {
                let is_open = open.swap(false, Ordering::AcqRel);
                Box::pin(async move {
                    if !is_open {
                        return Ok(true);
                    }
                    match sqlx::query("ROLLBACK").execute(connection).await {
                        Ok(_) => Ok(true),
                        Err(error) => Ok(error
                            .as_database_error()
                            .is_some_and(|error| error.message().contains("no transaction is active"))),
                    }
                })
            })
            .connect_lazy_with(
                connect
                    .clone()
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    // A checkpoint starts when the WAL has 8 MiB instead of 4 MiB (the default): checkpoints are rarer,
                    // and each one is still short.
                    .pragma("wal_autocheckpoint", "2000"),
            );
        let readers = pool(READERS).connect_lazy_with(connect.pragma("query_only", "ON"));
        let engine = SqliteEngine { writer, in_transaction, readers };
        engine.create().await?;
        Ok(engine)
    }

    /// Opens the writer first: it creates the file and the WAL, which readers need. If several processes switch a new
    /// file to WAL concurrently, SQLite refuses all but one immediately, regardless of the busy timeout; a retry
    /// succeeds.
    #[allow(
        clippy::disallowed_methods,
        reason = "a short pause of the adapter, before the store and its clock exist"
    )]
    async fn create(&self) -> Result<(), StoreError> {
        let mut remaining = BUSY_TIMEOUT;
        loop {
            match self.writer().await {
                Ok(_) => return Ok(()),
                Err(StoreError::Transient(_)) if remaining > CREATE_RETRY_PAUSE => {
                    tokio::time::sleep(CREATE_RETRY_PAUSE).await
                }
                Err(error) => return Err(error),
            }
            remaining -= CREATE_RETRY_PAUSE;
        }
    }
}

/// Creates an empty file that only its owner may read and write; SQLite gives its other files the same permissions.
/// Errors are ignored: if there is no file, SQLite reports why it cannot create one.
fn create_private(path: &Path) {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path));
}

#[async_trait]
impl Engine for SqliteEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &SqliteDialect
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        let connection = self.writer.acquire().await.map_err(to_store_error)?;
        Ok(Box::new(Writer { connection, in_transaction: self.in_transaction.clone() }))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(self.readers.acquire().await.map_err(to_store_error)?))
    }

    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError> {
        let mut writer = self.writer.acquire().await.map_err(to_store_error)?;
        self.in_transaction.store(true, Ordering::Release);
        // The driver's migration lock has no effect on SQLite; this transaction around all migrations replaces it.
        let mut transaction =
            sqlx::Connection::begin_with(&mut *writer, BEGIN).await.map_err(to_store_error)?;
        migrations
            .migrator(migrations.sqlite)
            .run_direct(None, &mut *transaction, false)
            .await
            .map_err(|error| StoreError::Backend(Box::new(error)))?;
        transaction.commit().await.map_err(to_store_error)
    }

    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile] {
        migrations.sqlite
    }

    async fn watch(&self, _notifier: &CommitNotifier) {
        // Only one process uses the file, so no other process can send notifications.
        std::future::pending().await
    }

    async fn send_notification(&self, _text: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) {
        // The readers are closed first: the last connection runs the checkpoint, and readers cannot run it.
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// The writer connection; tracks whether it may be in a transaction.
struct Writer {
    connection: PoolConnection<Sqlite>,
    in_transaction: Arc<AtomicBool>,
}

#[async_trait]
impl Connection for Writer {
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        // The flag is set before BEGIN is sent: this future may be dropped while the statement runs.
        if sql == BEGIN {
            self.in_transaction.store(true, Ordering::Release);
        }
        let changed = self.connection.execute(sql, values).await?;
        if sql == COMMIT {
            self.in_transaction.store(false, Ordering::Release);
        }
        Ok(changed)
    }

    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.connection.fetch(sql, values).await
    }
}

/// IMMEDIATE: a deferred transaction that reads, then writes, can fail with SQLITE_BUSY_SNAPSHOT regardless of the busy
/// timeout.
const BEGIN: &str = "BEGIN IMMEDIATE";

struct SqliteDialect;

impl Dialect for SqliteDialect {
    fn begin(&self) -> &'static str {
        BEGIN
    }

    fn explain(&self) -> &'static str {
        "EXPLAIN QUERY PLAN"
    }

    fn lock_index(&self, _name: &str) -> String {
        String::new()
    }

    fn now(&self) -> &'static str {
        "SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now') AS now"
    }

    fn for_update(&self) -> &'static str {
        ""
    }

    fn skip_locked(&self) -> &'static str {
        ""
    }

    fn tables(&self) -> &'static str {
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
    }

    fn claiming(&self) -> Claiming {
        Claiming::UpdateReturning
    }

    fn index(&self, name: &str) -> String {
        format!("INDEXED BY {name}")
    }

    fn failed(&self) -> String {
        self.index("idx_outbox_failed")
    }

    fn pending(&self) -> &'static str {
        "o.status IN ('NEW', 'RETRY')"
    }

    fn or_replace(&self, key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> =
            columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!("ON CONFLICT ({key}) DO UPDATE SET {}", sets.join(", "))
    }

    fn sum(&self, of: &str) -> String {
        format!("sum({of})")
    }
}

fn to_store_error(error: sqlx::Error) -> StoreError {
    store_error(error, classify)
}

fn classify(error: &dyn DatabaseError) -> ErrorClass {
    if matches!(error.kind(), ErrorKind::UniqueViolation) {
        return ErrorClass::UniqueViolation;
    }
    let code: i64 = error.code().and_then(|code| code.parse().ok()).unwrap_or(0);
    // The low byte is the primary result code: SQLITE_BUSY_SNAPSHOT is 517, 5 + 2 * 256.
    class_of(code & 0xff, error.message())
}

/// Class of a primary result code. SQLITE_ERROR stands for many errors, which only the message distinguishes.
fn class_of(code: i64, message: &str) -> ErrorClass {
    match code {
        // SQLITE_BUSY, SQLITE_LOCKED
        5 | 6 => ErrorClass::Transient,
        // SQLITE_PERM, SQLITE_AUTH
        3 | 23 => ErrorClass::RolledBack(SystemFaultKind::Rights),
        // SQLITE_READONLY
        8 => ErrorClass::RolledBack(SystemFaultKind::ReadOnly),
        // SQLITE_FULL: the transaction is rolled back before the connection is used again.
        13 => ErrorClass::RolledBack(SystemFaultKind::Storage),
        // SQLITE_NOMEM, SQLITE_IOERR, SQLITE_CANTOPEN: the end of the log may have been written.
        7 | 10 | 14 => ErrorClass::Fault(SystemFaultKind::Storage),
        1 if ["no such table", "no such column"].iter().any(|missing| message.starts_with(missing)) => {
            ErrorClass::RolledBack(SystemFaultKind::Schema)
        }
        _ => ErrorClass::Permanent,
    }
}

fn bind(arguments: &mut SqliteArguments, value: Value) -> Result<(), sqlx::error::BoxDynError> {
    match value {
        Value::Int(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        Value::Time(value) => arguments.add(value.map(time_text)),
        Value::List(_) => Err("SQLite does not support array parameters".into()),
    }
}

fn decode(row: &SqliteRow, index: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(Value::Text(None));
    }
    let is_integer = raw.type_info().name() == "INTEGER";
    if is_integer {
        Ok(Value::Int(Some(row.try_get_unchecked(index)?)))
    } else {
        Ok(Value::Text(Some(row.try_get_unchecked(index)?)))
    }
}

fn unchanged(sql: &str) -> &str {
    sql
}

crate::engine::connection!(
    Sqlite, SqliteArguments, bind: bind, decode: decode, classify: classify, text: unchanged
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_distinguished_from_errors_of_a_statement() {
        for (code, message, class) in [
            (8, "attempt to write a readonly database", ErrorClass::RolledBack(SystemFaultKind::ReadOnly)),
            (13, "database or disk is full", ErrorClass::RolledBack(SystemFaultKind::Storage)),
            (10, "disk I/O error", ErrorClass::Fault(SystemFaultKind::Storage)),
            (14, "unable to open database file", ErrorClass::Fault(SystemFaultKind::Storage)),
            (1, "no such table: orders", ErrorClass::RolledBack(SystemFaultKind::Schema)),
            (1, "no such column: statu", ErrorClass::RolledBack(SystemFaultKind::Schema)),
            (5, "database is locked", ErrorClass::Transient),
            (1, "near \"SELEC\": syntax error", ErrorClass::Permanent),
            (19, "CHECK constraint failed: status", ErrorClass::Permanent),
        ] {
            assert_eq!(class_of(code, message), class, "{code} {message}");
        }
    }
}
