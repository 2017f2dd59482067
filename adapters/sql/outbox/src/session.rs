//! A connection in use: a unit of work in a transaction, or a view outside a transaction.
//!
//! **Invariant:** a session does not commit after a statement failed or was dropped before it ended.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Duration, Utc};
use handover_events::Partition;
use handover_outbox::ports::{OutboxUnit, OutboxView, StoreError, UnitOfWork, View};

use crate::connection::Connection;
use crate::deferred::{DeferredWrites, MAX_DEFERRED_ROWS};
use crate::dialect::{Dialect, Joining, RowClaiming, placeholders};
use crate::error::commit_error;
use crate::lending::HasConnection;
use crate::row::Row;
use crate::shared::Shared;
use crate::table::Table;
use crate::timing::Timed;
use crate::value::{Value, values};

/// Whether every statement of the session has succeeded so far.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Ready,
    /// A statement is running, or its future was dropped.
    Running,
    Failed(String),
}

/// Result of [`Session::claim_row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowClaim {
    /// The row was inserted.
    Inserted,
    /// A row with this key exists, or (on PostgreSQL) a concurrent transaction is inserting one, if none can be read.
    NotInserted,
    /// A concurrent transaction has locked or is inserting the row. The unit of work can only be rolled back.
    Locked,
}

/// A connection in use: a unit of work in a transaction, or a view outside a transaction.
///
/// After a statement failed or was dropped before it ended, a session rejects further statements and the commit.
///
/// In a statement, a name of the toolkit's tables stands for the table with the prefix of the store
/// ([`TablePrefix`](crate::TablePrefix)). A name in quotes is not changed.
pub struct Session {
    connection: Box<dyn Connection>,
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) shared: Arc<Shared>,
    state: State,
    /// Whether the session began a transaction that it has not committed.
    in_transaction: bool,
    /// Whether the connection is prepared for statements of the application.
    is_lent: bool,
    appended: Vec<Partition>,
    deferred: DeferredWrites,
}

impl Session {
    pub(crate) fn new(
        connection: Box<dyn Connection>,
        dialect: &'static dyn Dialect,
        shared: Arc<Shared>,
    ) -> Session {
        Session {
            connection,
            dialect,
            shared,
            state: State::Ready,
            in_transaction: false,
            is_lent: false,
            appended: Vec::new(),
            deferred: DeferredWrites::default(),
        }
    }

    /// The SQL dialect of the database.
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.dialect
    }

    pub(crate) async fn begin(&mut self) -> Result<(), StoreError> {
        self.start().await?;
        self.in_transaction = true;
        let timed = Timed::start();
        let outcome = self.connection.begin().await;
        timed.end("BEGIN");
        self.finish(outcome)
    }

    /// Runs a statement and returns the number of affected rows.
    pub async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        if self.deferred.is_empty() {
            return self.send(sql, values).await;
        }
        let is_write = ["INSERT ", "UPDATE ", "DELETE "].iter().any(|verb| sql.starts_with(verb));
        if !is_write || self.deferred.concern(sql) || !self.deferred.have_room_for(values.len()) {
            self.send_deferred().await?;
            return self.send(sql, values).await;
        }
        let (sql, values) = self.deferred.take(self.dialect.joining(), Some((sql, values)));
        self.send(&sql, values).await
    }

    /// Sends the deferred writes.
    async fn send_deferred(&mut self) -> Result<(), StoreError> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let (sql, values) = self.deferred.take(self.dialect.joining(), None);
        self.send(&sql, values).await.map(drop)
    }

    async fn send(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        self.start().await?;
        let timed = Timed::start();
        let outcome = self.connection.execute(&self.shared.prefix.statement(sql), values).await;
        timed.end(sql);
        self.finish(outcome)
    }

    /// Runs a statement and returns its rows.
    pub async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        if self.deferred.concern(sql) {
            self.send_deferred().await?;
        }
        self.start().await?;
        let timed = Timed::start();
        let outcome = self.connection.fetch(&self.shared.prefix.statement(sql), values).await;
        timed.end(sql);
        self.finish(outcome)
    }

    /// Runs a query and returns its first row, if any.
    pub async fn fetch_one(&mut self, sql: &str, values: Vec<Value>) -> Result<Option<Row>, StoreError> {
        Ok(self.fetch(sql, values).await?.into_iter().next())
    }

    /// Inserts rows of `columns` values each, in order. `into` is `INSERT INTO t (a, b)`; `after` is the clause after
    /// the rows, or empty. Returns the number of affected rows.
    pub async fn insert(
        &mut self,
        into: &str,
        columns: usize,
        values: Vec<Value>,
        after: &str,
    ) -> Result<u64, StoreError> {
        let mut changed = 0;
        for (sql, values) in self.dialect.insert(into, columns, values, after) {
            changed += self.execute(&sql, values).await?;
        }
        Ok(changed)
    }

    /// Inserts rows of a table: [`Table::rows`]. `after` is the clause after the rows, or empty. A plain insert may be
    /// deferred ([`UnitOfWork::defer_writes`]).
    pub async fn insert_into<T: Table>(&mut self, rows: Vec<Value>, after: &str) -> Result<(), StoreError> {
        let statements = self.dialect.insert(T::INSERT, T::INSERTED, rows, after);
        let is_deferrable = self.deferred.is_allowed()
            && self.state == State::Ready
            && self.dialect.joining() != Joining::None
            && after.is_empty()
            && statements.iter().all(|(_, values)| values.len() <= MAX_DEFERRED_ROWS * T::INSERTED);
        for (sql, values) in statements {
            if !is_deferrable {
                self.execute(&sql, values).await?;
                continue;
            }
            if self.deferred.concern(&sql) || !self.deferred.have_room_for(values.len()) {
                self.send_deferred().await?;
            }
            self.deferred.push(T::NAME, sql, values);
        }
        Ok(())
    }

    /// Inserts rows of a table; updates the rows whose key exists.
    pub async fn insert_or_update<T: Table>(&mut self, rows: Vec<Value>) -> Result<(), StoreError> {
        let after = self.dialect.or_replace(T::KEY, T::UPDATED);
        self.insert_into::<T>(rows, &after).await
    }

    /// Inserts a row unless its key exists, or a concurrent transaction is inserting it: then this call does not wait for
    /// that transaction. `row` are the [`Table::values`] of a table whose key is [`Table::KEY`].
    ///
    /// If two transactions claim a key at the same moment on MySQL, one of them waits and gets a conflict.
    pub async fn claim_row<T: Table>(&mut self, row: Vec<Value>) -> Result<RowClaim, StoreError> {
        let columns: Vec<&str> = T::KEY.split(", ").collect();
        let key = row.get(..columns.len()).unwrap_or_default().to_vec();
        let inserted = match self.dialect.row_claiming() {
            RowClaiming::SingleWriter => {
                self.insert(T::INSERT, T::INSERTED, row, &self.dialect.or_ignore(T::KEY)).await?
            }
            RowClaiming::AdvisoryLock => {
                let sql = format!(
                    "{} SELECT {} WHERE pg_try_advisory_xact_lock(hashtextextended(current_schema() || ?, 0)) {}",
                    T::INSERT,
                    placeholders(row.len()),
                    self.dialect.or_ignore(T::KEY)
                );
                let name = key.iter().fold(T::NAME.to_owned(), |name, part| format!("{name}\n{part:?}"));
                self.execute(&sql, [row, values![name]].concat()).await?
            }
            RowClaiming::LockingRead => {
                let find = format!("SELECT 1 FROM {} WHERE {} = ?", T::NAME, columns.join(" = ? AND "));
                // A committed row is not locked: a rollback of this transaction would keep the lock for a moment.
                if self.fetch_one(&find, key.clone()).await?.is_some() {
                    return Ok(RowClaim::NotInserted);
                }
                match self.fetch_one(&format!("{find} FOR UPDATE NOWAIT"), key).await {
                    Err(StoreError::Transient(_)) => return Ok(RowClaim::Locked),
                    Err(error) => return Err(error),
                    Ok(Some(_)) => 0,
                    Ok(None) => self.insert(T::INSERT, T::INSERTED, row, "").await?,
                }
            }
        };
        Ok(if inserted == 0 { RowClaim::NotInserted } else { RowClaim::Inserted })
    }

    /// The current time of the database, plus the offset that tests set.
    pub(crate) async fn now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        let now = self.dialect.now();
        let row = self.fetch_one(now, Vec::new()).await?;
        let row = row.ok_or_else(|| StoreError::Backend("the database returned no current time".into()))?;
        Ok(row.of("the database", "now").time("now")? + self.shared.offset())
    }

    /// The current time of the database, and the time `for_ms` milliseconds later.
    pub(crate) async fn now_and(
        &mut self,
        for_ms: u32,
    ) -> Result<(DateTime<Utc>, DateTime<Utc>), StoreError> {
        let now = self.now().await?;
        Ok((now, now + Duration::milliseconds(i64::from(for_ms))))
    }

    /// Marks the session as failed because another unit of work changed a row, and returns the conflict.
    pub fn conflict(&mut self, what: impl Into<String>) -> StoreError {
        let what = what.into();
        self.state = State::Failed(format!("conflict on {what}"));
        StoreError::Conflict { what }
    }

    /// Marks the session as failed because of an invalid request, and returns the error.
    pub fn refuse(&mut self, why: &'static str) -> StoreError {
        self.state = State::Failed(why.to_owned());
        StoreError::Backend(why.into())
    }

    /// Decodes rows of the outbox. An unreadable row is reported and skipped, so that it does not block the others.
    pub(crate) fn readable<T>(&self, rows: &[Row], read: fn(&Row) -> Result<T, StoreError>) -> Vec<T> {
        let read = |row: &Row| match read(row) {
            Ok(value) => Some(value),
            Err(corrupt) => {
                self.shared.report(row.int("id").unwrap_or_default(), &corrupt);
                None
            }
        };
        rows.iter().filter_map(read).collect()
    }

    /// Records partitions for which the commit wakes the relay.
    pub(crate) fn appended(&mut self, partitions: impl Iterator<Item = Partition>) {
        self.appended.extend(partitions);
    }

    /// Commits the transaction, then wakes the relay for the partitions recorded by [`Session::appended`].
    pub(crate) async fn commit_now(&mut self) -> Result<(), StoreError> {
        self.send_deferred().await?;
        self.start().await?;
        let timed = Timed::start();
        let outcome = self.connection.commit().await.map_err(commit_error);
        timed.end("COMMIT");
        self.finish(outcome)?;
        self.in_transaction = false;
        if !self.appended.is_empty() {
            self.shared.notifier.notify_relays(self.appended.drain(..).collect());
        }
        Ok(())
    }

    /// Begins a statement of the store. If the connection is lent, it is reclaimed first.
    async fn start(&mut self) -> Result<(), StoreError> {
        match std::mem::replace(&mut self.state, State::Running) {
            State::Ready => {}
            State::Running => {
                return Err(StoreError::Backend(
                    "an earlier statement of this unit of work was abandoned".into(),
                ));
            }
            State::Failed(why) => {
                let refusal = format!("an earlier statement of this unit of work failed: {why}");
                self.state = State::Failed(why);
                return Err(StoreError::Backend(refusal.into()));
            }
        }
        if std::mem::take(&mut self.is_lent) {
            let reclaimed = self.connection.reclaim().await;
            if reclaimed.is_err() {
                return self.finish(reclaimed);
            }
        }
        Ok(())
    }

    /// Prepares the connection for statements of the application, until the next statement of the store.
    async fn lend(&mut self) -> Result<(), StoreError> {
        if self.is_lent {
            return Ok(());
        }
        self.send_deferred().await?;
        self.start().await?;
        let lent = self.connection.lend().await;
        self.finish(lent)?;
        self.is_lent = true;
        Ok(())
    }

    fn finish<T>(&mut self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        self.shared.observe(&outcome);
        self.state = match &outcome {
            Ok(_) => State::Ready,
            Err(error) => State::Failed(error.to_string()),
        };
        outcome
    }
}

#[async_trait]
impl<C: Send + 'static> HasConnection<C> for Session {
    async fn connection(&mut self) -> Result<&mut C, StoreError> {
        if self.connection.driver().is_some_and(|driver| !driver.is::<C>()) {
            return Err(self.refuse("the database is of another kind than the requested connection"));
        }
        self.lend().await?;
        let driver = self.connection.driver().and_then(|driver| driver.downcast_mut());
        driver.ok_or_else(|| StoreError::Unavailable("the connection was lost".into()))
    }
}

impl View for Session {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self
    }
}

#[async_trait]
impl UnitOfWork for Session {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self
    }

    fn defer_writes(&mut self) {
        self.deferred.allow();
    }

    fn defers_writes(&mut self) -> bool {
        self.deferred.is_allowed()
    }

    async fn commit(mut self: Box<Self>) -> Result<(), StoreError> {
        self.commit_now().await
    }
}
