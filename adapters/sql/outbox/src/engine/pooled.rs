//! Pooled connections to a server, shared by PostgreSQL and MySQL.
//!
//! **Invariant:** a connection returns to the pool outside a transaction, or it is closed. The flag for an open
//! transaction is set before BEGIN is sent, because the future may be dropped before the server responds.
//!
//! **Invariant:** every statement has a time limit: a stopped or unreachable server is reported as unavailable.

use std::any::Any;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::{StoreError, SystemFaultKind};
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::{ConnectOptions, Connection as _, Database, Pool};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::connection::{Connection, DriverConnection, no_transaction, transaction_ended};
use crate::pools::{SERVER, wait_for};
use crate::row::Row;
use crate::value::Value;

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the response to a statement; the server's own limits for locks and statements are shorter.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for the rollback of a connection that was lent; after it the connection is closed. After a statement with a wrong number
/// of parameters, which sqlx-mysql does not send, it waits for a response that never comes: without a short limit such
/// handlers would keep the pool from everybody else.
const LENT_ROLLBACK_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection that was idle for longer is tested with a ping before use. Under load, connections are not idle that
/// long.
const MAX_IDLE_WITHOUT_PING: Duration = Duration::from_millis(100);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for the search for the cause when the pool could not connect.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Capacity of the cache of prepared statements per connection. Few are needed: lists have few lengths.
pub(super) const PREPARED: usize = 256;
/// The server's time limit for a statement, in seconds; shorter than [`RESPONSE_TIMEOUT`]. Without it a server
/// continues after the client has stopped waiting, and keeps the locks of the transaction.
pub(super) const STATEMENT_S: u32 = 14;
/// The server's time limit for waiting for a lock, in seconds.
pub(super) const LOCK_WAIT_S: u32 = 2;
/// The server's time limit for an idle transaction, in seconds: a suspended process must not keep its locks.
/// While a connection is lent, the limit of the server applies.
pub(super) const IDLE_IN_TRANSACTION_S: u32 = 15;
/// Time limit for waiting for the migration of another process, in seconds.
pub(super) const MIGRATION_WAIT_S: u32 = 60;

/// The pool options that PostgreSQL and MySQL share.
pub(super) fn pool<DB: Database>(connections: NonZeroU32) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(connections.get())
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(|connection: &mut DB::Connection, meta| {
            Box::pin(async move {
                if meta.idle_for < MAX_IDLE_WITHOUT_PING {
                    return Ok(true);
                }
                Ok(matches!(timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
            })
        })
}

/// Opens a connection, runs `set_up` on it and closes it again. The pool would not report an error of `set_up`.
pub(super) async fn probe<O>(
    options: &O,
    set_up: impl AsyncFnOnce(&mut O::Connection) -> Result<(), sqlx::Error>,
) -> Result<(), sqlx::Error>
where
    O: ConnectOptions,
    O::Connection: Sized,
{
    let timed_out = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no response from the server");
    let connecting = async {
        let mut connection = options.connect().await?;
        set_up(&mut connection).await?;
        Ok::<_, sqlx::Error>(connection)
    };
    let connection = timeout(ACQUIRE_TIMEOUT, connecting).await.map_err(|_| timed_out())??;
    // The server has responded, so an error on closing does not matter.
    let _ = timeout(PING_TIMEOUT, connection.close()).await;
    Ok(())
}

/// Takes a connection from the pool. If the pool could not open one in time, it retried and does not report why, for
/// example that the server has too many connections: the error is then that of a connection outside the pool.
pub(super) async fn acquire<DB, O>(
    pool: &Pool<DB>,
    options: &O,
    set_up: impl AsyncFnOnce(&mut DB::Connection) -> Result<(), sqlx::Error>,
) -> Result<PoolConnection<DB>, sqlx::Error>
where
    DB: Database,
    O: ConnectOptions<Connection = DB::Connection>,
{
    let error = match wait_for(SERVER, pool.acquire()).await {
        Err(error @ sqlx::Error::PoolTimedOut) if pool.size() < pool.options().get_max_connections() => error,
        acquired => return acquired,
    };
    match timeout(CAUSE_TIMEOUT, probe(options, set_up)).await {
        Ok(Err(cause)) => Err(cause),
        Ok(Ok(())) | Err(_) => Err(error),
    }
}

/// A pooled connection of a driver to a server.
#[async_trait]
pub(crate) trait ServerConnection: DriverConnection {
    /// Rolls back every transaction, including one that was begun by a dropped future.
    async fn roll_back(&mut self) -> Result<(), StoreError>;

    /// Closes the connection on drop instead of returning it to the pool.
    fn close_instead_of_pooling(&mut self);
}

/// The statements before and after the time in which a connection is lent to the application.
pub(super) struct Lending {
    /// Sets the session settings of the server.
    pub(super) lend: String,
    /// Sets those of the store again, and finds out whether the transaction is still the same.
    pub(super) reclaim: String,
    /// Number of rows that `reclaim` returns if it is.
    pub(super) reclaimed_rows: u64,
    /// Sets after a commit what neither it nor `reclaim` does.
    pub(super) after_commit: Option<&'static str>,
    /// Sets those of the store after a rollback, if the rollback does not.
    pub(super) after_rollback: Option<String>,
}

/// A connection whose open transaction is rolled back before it is reused.
pub(crate) struct Pooled<C: ServerConnection> {
    /// `None` after the connection was lost or returned.
    connection: Option<C>,
    /// Whether a transaction may be open.
    in_transaction: bool,
    /// Whether the connection was lent in this transaction, so that it may have other session settings than the store's.
    was_lent: bool,
    lending: &'static Lending,
}

/// Whether a connection is closed after an error: the server has not answered, or it refused a write because it is read-only. After a
/// failover, the former primary server is; a new connection leads to the present one. After another system fault the
/// connection still works: the server answered.
fn ends_connection(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_))
        && error.system_fault().is_none_or(|fault| fault.kind == SystemFaultKind::ReadOnly)
}

/// Runs a statement with a time limit. A connection without a response is closed: its state is unknown.
macro_rules! with_timeout {
    ($self:ident, |$connection:ident| $statement:expr) => {{
        let Some($connection) = $self.connection.as_mut() else {
            return Err(StoreError::Unavailable("the connection was lost".into()));
        };
        let outcome = match timeout(RESPONSE_TIMEOUT, $statement).await {
            Ok(outcome) => outcome,
            Err(elapsed) => Err(StoreError::Unavailable(Box::new(elapsed))),
        };
        if outcome.as_ref().is_err_and(ends_connection) {
            if let Some(mut lost) = $self.connection.take() {
                lost.close_instead_of_pooling();
            }
        }
        outcome
    }};
}

impl<C: ServerConnection> Pooled<C> {
    pub(super) fn new(connection: C, lending: &'static Lending) -> Pooled<C> {
        Pooled { connection: Some(connection), in_transaction: false, was_lent: false, lending }
    }

    /// Sets the session settings of the store after a commit.
    async fn end_lending(&mut self) -> Result<(), StoreError> {
        match self.lending.after_commit {
            Some(settings) => with_timeout!(self, |connection| connection.simple(settings)).map(drop),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl<C: ServerConnection> Connection for Pooled<C> {
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        if values.is_empty() {
            with_timeout!(self, |connection| connection.simple(sql))
        } else {
            with_timeout!(self, |connection| connection.statements().execute_with(sql, values))
        }
    }

    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        with_timeout!(self, |connection| connection.statements().fetch_with(sql, values))
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        self.in_transaction = true;
        with_timeout!(self, |connection| connection.begin(None))
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        with_timeout!(self, |connection| connection.commit())?;
        // The unit of work is committed, whatever happens to the connection. If this future is dropped, the drop of the connection
        // sets what is left.
        if self.was_lent
            && self.end_lending().await.is_err()
            && let Some(mut unset) = self.connection.take()
        {
            unset.close_instead_of_pooling();
        }
        self.in_transaction = false;
        self.was_lent = false;
        Ok(())
    }

    async fn lend(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction {
            return Err(no_transaction());
        }
        self.was_lent = true;
        with_timeout!(self, |connection| connection.simple(&self.lending.lend)).map(drop)
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        match with_timeout!(self, |connection| connection.simple(&self.lending.reclaim)) {
            Ok(rows) if rows == self.lending.reclaimed_rows => Ok(()),
            Ok(_) => Err(transaction_ended()),
            // The statements name no table or column: the savepoint does not exist.
            Err(error) if error.system_fault().is_some_and(|fault| fault.kind == SystemFaultKind::Schema) => {
                Err(transaction_ended())
            }
            Err(error) => Err(error),
        }
    }

    fn driver(&mut self) -> Option<&mut (dyn Any + Send)> {
        self.connection.as_mut().map(DriverConnection::driver)
    }
}

impl<C: ServerConnection> Drop for Pooled<C> {
    #[allow(clippy::disallowed_methods, reason = "the rollback outlives the caller, as in the driver's pool")]
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take().filter(|_| self.in_transaction) else { return };
        match Handle::try_current() {
            // If the task is dropped, the runtime is shutting down, and the connection is closed.
            Ok(runtime) => {
                let settings = self.lending.after_rollback.as_deref().filter(|_| self.was_lent);
                let limit = if self.was_lent { LENT_ROLLBACK_TIMEOUT } else { RESPONSE_TIMEOUT };
                drop(runtime.spawn(roll_back(connection, settings, limit)));
            }
            Err(_) => connection.close_instead_of_pooling(),
        }
    }
}

async fn roll_back<C: ServerConnection>(connection: C, settings: Option<&'static str>, limit: Duration) {
    // If the rollback fails or this future is dropped, the connection is closed.
    let mut connection = CloseOnDrop(Some(connection));
    let Some(open) = connection.0.as_mut() else { return };
    let rolled_back = async {
        open.roll_back().await?;
        match settings {
            Some(settings) => open.simple(settings).await.map(drop),
            None => Ok(()),
        }
    };
    if matches!(timeout(limit, rolled_back).await, Ok(Ok(()))) {
        drop(connection.0.take());
    }
}

/// Closes its connection on drop, unless the connection was taken out.
struct CloseOnDrop<C: ServerConnection>(Option<C>);

impl<C: ServerConnection> Drop for CloseOnDrop<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.as_mut() {
            connection.close_instead_of_pooling();
        }
    }
}
