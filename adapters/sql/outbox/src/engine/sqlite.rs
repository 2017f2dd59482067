//! SQLite: one writer connection behind a fair queue, and a pool of readers.
//!
//! **Invariant:** every write, and every read that must wait for the end of an earlier write, uses the one writer
//! connection.

mod backup;
mod catalogue;
mod checkpoints;
mod connections;
mod dialect;
mod error;
mod group_sync;
mod log_check;
mod storage;
#[cfg(test)]
mod tests;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::StoreError;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Arguments as _, ConnectOptions as _, Pool, Row as _, Sqlite, TypeInfo as _, ValueRef as _};

use crate::connection::{Connection, Engine};
use crate::dialect::Dialect;
use crate::migrations::{MigrationFile, Migrations};
use crate::pools;
use crate::prefix::TablePrefix;
use crate::value::{Value, time_text};
use crate::wakeup::CommitNotifier;

use connections::{BEGIN, Reader, Writer};
pub(crate) use dialect::SqliteDialect;
pub(crate) use error::classify;
use error::to_store_error;
pub use log_check::ForeignLog;
use storage::Problem;
use upkeep::Upkeep;

/// Time limit for waiting for a connection of the pool, or for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;
/// Names of the two pools in metrics.
const WRITER: &str = "writer";
const READER: &str = "readers";
/// Pause between attempts to create a file that other processes are creating too.
const CREATE_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Location of an SQLite database.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    path: PathBuf,
    connect: SqliteConnectOptions,
    prefix: TablePrefix,
    /// Whether the write-ahead log begins with a [mark](log_check), in `user_version` and `application_id`.
    has_marks: bool,
}

impl SqliteOptions {
    /// A database file of the store. If it does not exist, it is created; on Unix only its owner may read and write it. The
    /// store writes its `user_version` and `application_id`, so that a write-ahead log of another file is refused.
    pub fn file(path: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions::at(path.into(), SqliteConnectOptions::new(), true)
    }

    /// The options of an application's own connections, of which the settings that the store needs are replaced:
    /// write-ahead log, synchronous commits, foreign keys, time limits, cache sizes. `user_version` and `application_id` of the
    /// file stay the application's. `None` for an in-memory database: each connection would open a separate one.
    pub fn of(connect: SqliteConnectOptions) -> Option<SqliteOptions> {
        let path = connect.get_filename().to_owned();
        let is_file = path
            .to_str()
            .is_none_or(|path| !path.is_empty() && !path.starts_with([':']) && !path.starts_with("file:"));
        is_file.then(|| SqliteOptions::at(path, connect, false))
    }

    fn at(path: PathBuf, connect: SqliteConnectOptions, has_marks: bool) -> SqliteOptions {
        SqliteOptions { path, connect, prefix: TablePrefix::default(), has_marks }
    }

    /// Parses a URL: `sqlite://handover.db`, `sqlite:///var/lib/handover.db`, `sqlite:handover.db`.
    pub fn from_url(url: &str) -> Option<SqliteOptions> {
        let path = url.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("//").unwrap_or(path);
        // An in-memory database is rejected: each connection would open a separate one.
        let is_file = !path.is_empty() && !path.starts_with(":memory:") && !path.contains('?');
        is_file.then(|| SqliteOptions::file(path))
    }

    /// Sets the prefix of the tables; the default is none.
    #[must_use]
    pub fn table_prefix(mut self, prefix: TablePrefix) -> SqliteOptions {
        self.prefix = prefix;
        self
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
    upkeep: Arc<Upkeep>,
    prefix: TablePrefix,
}

impl SqliteEngine {
    /// Opens the file, and creates it if it does not exist. Fails with [`ForeignLog`] before anything is read or changed if
    /// the write-ahead log beside it belongs to another file.
    pub(crate) async fn open(options: &SqliteOptions) -> Result<SqliteEngine, StoreError> {
        let log = log_of(&options.path);
        if options.has_marks {
            log_check::check(&options.path, &log).await?;
        }
        create_private(&options.path);
        let upkeep = Arc::new(Upkeep::new(&options.path, &log, options.has_marks));
        let connect = options
            .connect
            .clone()
            .filename(&options.path)
            .in_memory(false)
            .shared_cache(false)
            .read_only(false)
            .immutable(false)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            // The store flushes the log itself: see `group_sync`.
            .synchronous(SqliteSynchronous::Normal)
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
        let connected = upkeep.clone();
        let writer = pool(1)
            .after_connect(move |connection, _| {
                let upkeep = connected.clone();
                Box::pin(async move {
                    // The first read opens the log. A log that no connection has open may be deleted at any time.
                    sqlx::raw_sql("SELECT 1 FROM sqlite_schema LIMIT 1").execute(connection).await?;
                    upkeep.storage.opened();
                    Ok(())
                })
            })
            .after_release(move |connection, _| {
                let is_open = open.swap(false, Ordering::AcqRel);
                Box::pin(async move { Ok(!is_open || connections::roll_back(connection).await.is_ok()) })
            })
            .connect_lazy_with(
                connect
                    .clone()
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .pragma("wal_autocheckpoint", "0")
                    .pragma("journal_size_limit", checkpoints::LOG_LIMIT_BYTES.to_string()),
            );
        let readers = pool(READERS).connect_lazy_with(connect.pragma("query_only", "ON"));
        let prefix = options.prefix.clone();
        let engine = SqliteEngine { writer, in_transaction, readers, upkeep, prefix };
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

/// The write-ahead log beside a database file.
fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
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

    fn prefix(&self) -> &TablePrefix {
        &self.prefix
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        self.upkeep.check()?;
        let acquired = pools::wait_for(WRITER, self.writer.acquire()).await;
        let connection = acquired.map_err(to_store_error)?;
        let in_transaction = self.in_transaction.clone();
        Ok(Box::new(Writer::new(connection, in_transaction, self.upkeep.clone())))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        let acquired = pools::wait_for(READER, self.readers.acquire()).await;
        Ok(Box::new(Reader::new(acquired.map_err(to_store_error)?, self.upkeep.sync.clone())))
    }

    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError> {
        let mut writer = self.writer.acquire().await.map_err(to_store_error)?;
        self.in_transaction.store(true, Ordering::Release);
        self.upkeep.mark_empty_log(&mut writer).await;
        // The driver's migration lock has no effect on SQLite; this transaction around all migrations replaces it.
        let mut transaction =
            sqlx::Connection::begin_with(&mut *writer, BEGIN).await.map_err(to_store_error)?;
        self.prefix
            .migrator(migrations, migrations.sqlite)
            .run_direct(None, &mut *transaction, false)
            .await
            .map_err(|error| StoreError::Backend(Box::new(error)))?;
        let committing = self.upkeep.sync.begin();
        let number = committing.number();
        let committed = transaction.commit().await.map_err(to_store_error);
        drop(committing);
        drop(writer);
        committed?;
        self.upkeep.sync.durable(number).await
    }

    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile] {
        migrations.sqlite
    }

    fn expected(&self, migrations: &Migrations) -> &'static str {
        migrations.schema.sqlite
    }

    async fn watch(&self, _notifier: &CommitNotifier) {
        // Only one process uses the file, so no other process can send notifications.
        std::future::pending().await
    }

    async fn send_notification(&self, _text: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn storage_problem(&self) -> Option<String> {
        if self.upkeep.storage.check().is_err() {
            return Some(Problem::Replaced.to_string());
        }
        if let Err(why) = self.upkeep.sync.check() {
            return Some(why);
        }
        let problem = self.upkeep.storage.problem()?;
        // No other write may follow, so this one finds out whether the problem is solved.
        let mut writer = self.writer.acquire().await.ok()?;
        self.in_transaction.store(true, Ordering::Release);
        match self.upkeep.checkpoints.write_page_one(&mut writer).await {
            Ok(()) => self.upkeep.storage.recovered(),
            Err(_) => return Some(problem.to_string()),
        }
        None
    }

    async fn backup(&self, copy: &Path) -> Result<(), StoreError> {
        let mut writer = self.writer.acquire().await.map_err(to_store_error)?;
        backup::copy(&mut writer, copy, self.upkeep.checkpoints.has_marks).await
    }

    fn report_pools(&self) {
        pools::report(WRITER, &self.writer);
        pools::report(READER, &self.readers);
    }

    async fn close(&self) {
        // The readers are closed first: the last connection runs the checkpoint, and readers cannot run it.
        self.readers.close().await;
        self.writer.close().await;
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
    Sqlite, sqlx::SqliteConnection, SqliteArguments, bind: bind, decode: decode, classify: classify, text: unchanged
);
