//! The connections of an SQLite database: the writer and the readers.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use handover_outbox::ports::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection};
use sqlx_core::transaction::TransactionManager as _;

use super::group_sync::GroupSync;
use super::upkeep::Upkeep;
use crate::connection::{Connection, DriverConnection, no_transaction, transaction_ended};
use crate::engine::transactions;
use crate::row::Row;
use crate::value::Value;

/// IMMEDIATE: a deferred transaction that reads, then writes, can fail with SQLITE_BUSY_SNAPSHOT regardless of the busy
/// timeout.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// The writer connection; tracks whether it may be in a transaction.
pub(super) struct Writer {
    /// `None` after a commit: the next unit of work uses it while the log is flushed.
    connection: Option<PoolConnection<Sqlite>>,
    in_transaction: Arc<AtomicBool>,
    upkeep: Arc<Upkeep>,
}

/// Error of a statement after the commit.
fn committed_already() -> StoreError {
    StoreError::Backend("the transaction is committed, and its connection is in use by another one".into())
}

impl Writer {
    pub(super) fn new(
        connection: PoolConnection<Sqlite>,
        in_transaction: Arc<AtomicBool>,
        upkeep: Arc<Upkeep>,
    ) -> Writer {
        Writer { connection: Some(connection), in_transaction, upkeep }
    }

    fn connection(&mut self) -> Result<&mut PoolConnection<Sqlite>, StoreError> {
        self.connection.as_mut().ok_or_else(committed_already)
    }

    /// Runs a checkpoint if one is due and no transaction is open.
    async fn checkpoint(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if self.in_transaction.load(Ordering::Acquire) || !self.upkeep.checkpoints.is_due() {
            return;
        }
        // This future may be dropped while the mark is written.
        self.in_transaction.store(true, Ordering::Release);
        match self.upkeep.checkpoints.run(connection).await {
            Ok(()) => self.in_transaction.store(false, Ordering::Release),
            Err(error) => tracing::debug!(%error, "sqlite: checkpoint failed; the next commit repeats it"),
        }
    }

    fn named<T>(&self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        outcome.map_err(|error| self.upkeep.storage.named(error))
    }
}

#[async_trait]
impl Connection for Writer {
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let changed = self.connection()?.statements().execute_with(sql, values).await;
        let changed = self.named(changed)?;
        self.checkpoint().await;
        Ok(changed)
    }

    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = self.connection()?.statements().fetch_with(sql, values).await;
        let rows = self.named(rows)?;
        self.checkpoint().await;
        Ok(rows)
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        let connection = self.connection.as_mut().ok_or_else(committed_already)?;
        // The flag is set before BEGIN is sent: this future may be dropped while the statement runs.
        self.in_transaction.store(true, Ordering::Release);
        self.upkeep.mark_empty_log(connection).await;
        let begun = connection.begin(Some(BEGIN)).await;
        self.named(begun)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.upkeep.check()?;
        let connection = self.connection.as_mut().ok_or_else(committed_already)?;
        let committing = self.upkeep.sync.begin();
        let number = committing.number();
        let committed = connection.commit().await;
        drop(committing);
        self.named(committed)?;
        self.in_transaction.store(false, Ordering::Release);
        self.checkpoint().await;
        self.connection = None;
        self.upkeep.sync.durable(number).await
    }

    async fn lend(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction.load(Ordering::Acquire) {
            return Err(no_transaction());
        }
        // The end of the transaction removes the savepoint.
        let begun = self.connection()?.simple("SAVEPOINT handover_lent").await;
        self.named(begun).map(drop)
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        match self.connection()?.simple("RELEASE handover_lent").await {
            Err(StoreError::Backend(cause)) if cause.to_string().contains("no such savepoint") => {
                Err(transaction_ended())
            }
            released => self.named(released).map(drop),
        }
    }

    fn driver(&mut self) -> Option<&mut (dyn Any + Send)> {
        Some(self.connection.as_mut()?.driver())
    }
}

/// Rolls back every transaction of the writer, including one that was begun by a dropped future.
pub(super) async fn roll_back(writer: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    type Manager = <Sqlite as sqlx::Database>::TransactionManager;
    let is_over = |error: &sqlx::Error| {
        error.as_database_error().is_some_and(|error| error.message().contains("no transaction is active"))
    };
    if transactions::depth::<Sqlite>(writer) == 0 {
        // The transaction, if there is one, was begun by statements of a future that was dropped.
        match sqlx::raw_sql("ROLLBACK").execute(&mut *writer).await {
            Err(error) if !is_over(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    if let Err(error) = transactions::roll_back::<Sqlite>(writer).await {
        if !is_over(&error) {
            return Err(error);
        }
        // SQLite ended the transaction by itself, for example because the disk was full, and the driver does not know it.
        sqlx::raw_sql("BEGIN").execute(&mut *writer).await?;
        transactions::roll_back::<Sqlite>(writer).await?;
    }
    // If a commit was abandoned, the driver ignores the next rollback of a dropped transaction; here there is none.
    Manager::start_rollback(writer);
    Ok(())
}

/// A connection that reads committed data.
pub(super) struct Reader {
    connection: PoolConnection<Sqlite>,
    sync: Arc<GroupSync>,
}

impl Reader {
    pub(super) fn new(connection: PoolConnection<Sqlite>, sync: Arc<GroupSync>) -> Reader {
        Reader { connection, sync }
    }
}

/// Error of a transaction on a reader.
fn read_only() -> StoreError {
    StoreError::Backend("a connection for reading begins no transaction".into())
}

#[async_trait]
impl Connection for Reader {
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        self.connection.statements().execute_with(sql, values).await
    }

    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = self.connection.statements().fetch_with(sql, values).await?;
        self.sync.seen_durable().await?;
        Ok(rows)
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        Err(read_only())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        Err(read_only())
    }

    async fn lend(&mut self) -> Result<(), StoreError> {
        Err(no_transaction())
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        Err(no_transaction())
    }

    fn driver(&mut self) -> Option<&mut (dyn Any + Send)> {
        Some(self.connection.driver())
    }
}
