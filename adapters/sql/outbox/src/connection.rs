//! The traits that an engine implements for the repositories: a connection, and an engine that opens connections.

use std::any::Any;
use std::path::Path;

use async_trait::async_trait;
use handover_outbox::ports::{DatabaseHealth, StoreError};

use crate::dialect::Dialect;
use crate::engine_info::{ServerInfo, UnsuitableSetting};
use crate::migrations::{MigrationFile, Migrations};
use crate::prefix::TablePrefix;
use crate::row::Row;
use crate::value::Value;
use crate::wakeup::CommitNotifier;

/// A pooled connection. After it is dropped, an open transaction is rolled back before the connection is used again.
#[async_trait]
pub(crate) trait Connection: Send {
    /// Runs a statement and returns the number of affected rows.
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError>;

    /// Runs a statement and returns its rows.
    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError>;

    /// Begins a transaction that may write.
    async fn begin(&mut self) -> Result<(), StoreError>;

    /// Commits the transaction; refuses if a nested transaction is open.
    async fn commit(&mut self) -> Result<(), StoreError>;

    /// Prepares the connection for statements of the application: in the transaction, and under the session settings of
    /// the server.
    async fn lend(&mut self) -> Result<(), StoreError>;

    /// Prepares the connection for statements of the store again. Fails if the application ended the transaction.
    async fn reclaim(&mut self) -> Result<(), StoreError>;

    /// The connection of the driver; `None` if it was lost.
    fn driver(&mut self) -> Option<&mut (dyn Any + Send)>;
}

/// Error of [`Connection::lend`] outside of a transaction.
pub(crate) fn no_transaction() -> StoreError {
    StoreError::Backend("only a unit of work lends its connection".into())
}

/// Error of [`Connection::reclaim`] after a COMMIT or ROLLBACK of the application, or after the database rolled the
/// transaction back because of an error that the application ignored.
pub(crate) fn transaction_ended() -> StoreError {
    StoreError::Backend("the transaction ended while the connection was lent".into())
}

/// A connection of a driver, pooled or not.
#[async_trait]
pub(crate) trait Statements: Send {
    /// Runs a statement and returns the number of affected rows.
    async fn execute_with(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError>;

    /// Runs a statement and returns its rows.
    async fn fetch_with(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError>;
}

/// A pooled connection of a driver.
#[async_trait]
pub(crate) trait DriverConnection: Send + 'static {
    /// Runs statements on the connection.
    fn statements(&mut self) -> &mut dyn Statements;

    /// Runs statements without parameters, unprepared, in one message.
    async fn simple(&mut self, sql: &str) -> Result<u64, StoreError>;

    /// Begins a transaction, with another statement than `BEGIN` if one is given.
    async fn begin(&mut self, statement: Option<&'static str>) -> Result<(), StoreError>;

    /// Commits the transaction; refuses if a nested transaction is open.
    async fn commit(&mut self) -> Result<(), StoreError>;

    /// The connection of the driver.
    fn driver(&mut self) -> &mut (dyn Any + Send);
}

/// A database engine with its connection pool.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    fn dialect(&self) -> &'static dyn Dialect;

    /// The prefix of the tables.
    fn prefix(&self) -> &TablePrefix;

    /// A connection that may write, outside any transaction.
    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// A connection that reads committed data and does not block writers.
    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// Opens one connection outside the pool: the pool retries until its timeout and then does not report the cause.
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Applies the pending migrations of one part of the schema. Processes may do this concurrently.
    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError>;

    /// The migrations for this engine.
    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile];

    /// The schema after these migrations on this engine.
    fn expected(&self, migrations: &Migrations) -> &'static str;

    /// Version and settings of the server; `None` on SQLite, which has no server.
    async fn server_info(&self) -> Result<Option<ServerInfo>, StoreError> {
        Ok(None)
    }

    /// Settings under which the store cannot write, and which its connections cannot change; none on SQLite.
    async fn unsuitable_settings(&self) -> Result<Vec<UnsuitableSetting>, StoreError> {
        Ok(Vec::new())
    }

    /// Whether the database prevents this user from changing or deleting entries of the audit log. By default the
    /// triggers of the schema prevent it, and only the owner of the tables can drop these triggers.
    async fn guards_audit_log(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Passes the notifications of other processes to `notifier`, and sends the pending notifications of this process
    /// to them, until the future is dropped.
    async fn watch(&self, notifier: &CommitNotifier);

    /// Sends one notification to other processes immediately; does nothing on an engine without notifications.
    async fn send_notification(&self, text: &str) -> Result<(), StoreError>;

    /// A problem of the storage that reads do not show, such as a full disk; without paths. `None` if a server stores
    /// the data, or if writes succeed.
    async fn storage_problem(&self) -> Option<String> {
        None
    }

    /// Copies the database into an empty file, while it is in use. Only SQLite databases can be copied.
    async fn backup(&self, _copy: &Path) -> Result<(), StoreError> {
        Err(StoreError::Backend("only a database file can be copied".into()))
    }

    /// The health of the database, without what the engine does not show to this user; nothing on SQLite, where transactions
    /// of this process only can be open.
    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        Ok(DatabaseHealth::default())
    }

    /// Sets the gauges of the connection pools.
    fn report_pools(&self);

    async fn close(&self);
}
