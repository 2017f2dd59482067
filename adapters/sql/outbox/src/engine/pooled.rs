//! A connection to a server, out of a pool: what PostgreSQL and MySQL have in common.
//!
//! **Invariant:** a connection goes back to the pool outside of any transaction, or not at all. That a transaction may
//! be open is noted before BEGIN is sent: the future that sends it may be dropped while the server answers, and the
//! driver's own transactions forget to roll back then.
//!
//! **Invariant:** no statement is waited for without end: a server that is stopped, or behind a cut network, is away.

use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::StoreError;
use sqlx::pool::PoolOptions;
use sqlx::{ConnectOptions, Connection as _, Database};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::connection::{COMMIT, Connection};
use crate::row::Row;
use crate::value::Value;

/// How long to wait for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);
/// The longest that an answer is waited for; locks are given up before, by the server.
const ANSWER: Duration = Duration::from_secs(15);
/// A connection that lay idle for longer is asked first whether it still works. Under load none does.
const FRESH: Duration = Duration::from_millis(100);
/// The longest that such a question is waited for.
const PING: Duration = Duration::from_secs(2);
/// Statements that a connection keeps prepared: slices come in lengths of powers of two.
pub(super) const PREPARED: usize = 256;
/// How long the server works on a statement, in seconds: before nobody waits for it any more. Without a limit of its own a server
/// goes on when its client has given up, and keeps the locks of the transaction.
pub(super) const STATEMENT_S: u32 = 14;
/// How long a lock is waited for, in seconds.
pub(super) const LOCK_WAIT_S: u32 = 2;
/// How long a transaction may do nothing, in seconds: a process that was stopped within one must not keep its locks.
pub(super) const IDLE_IN_TRANSACTION_S: u32 = 15;
/// How long to wait for another process that migrates, in seconds.
pub(super) const MIGRATION_WAIT_S: u32 = 60;

/// A pool's options, with what holds for every connection of it.
pub(super) fn pool<DB: Database>(connections: NonZeroU32) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(connections.get())
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .before_acquire(|connection: &mut DB::Connection, meta| {
            Box::pin(async move {
                if meta.idle_for < FRESH {
                    return Ok(true);
                }
                Ok(matches!(timeout(PING, connection.ping()).await, Ok(Ok(()))))
            })
        })
}

/// Connects once, and closes again.
pub(super) async fn probe<O>(options: &O) -> Result<(), sqlx::Error>
where
    O: ConnectOptions,
    O::Connection: Sized,
{
    let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer");
    let connection = timeout(ACQUIRE, options.connect()).await.map_err(|_| late())??;
    // Whatever becomes of the farewell, it has answered.
    let _ = timeout(PING, connection.close()).await;
    Ok(())
}

/// A driver's connection.
#[async_trait]
pub(crate) trait ServerConnection: Connection {
    /// Runs a statement without values, unprepared: MySQL prepares neither BEGIN nor ROLLBACK.
    async fn simple(&mut self, sql: &str) -> Result<u64, StoreError>;

    /// It is to be closed, not given back.
    fn forget(&mut self);
}

/// A connection that rolls back what was begun on it before it is used again.
pub(crate) struct Pooled<C: ServerConnection + 'static> {
    /// Until it is given back.
    connection: Option<C>,
    begin: &'static str,
    /// A transaction was begun, and its end is not known.
    begun: bool,
}

impl<C: ServerConnection + 'static> Pooled<C> {
    pub(super) fn new(connection: C, begin: &'static str) -> Pooled<C> {
        Pooled { connection: Some(connection), begin, begun: false }
    }
}

/// Bounds the wait for an answer. A connection whose answer did not come is of no use any more.
macro_rules! answered {
    ($self:ident, |$connection:ident| $statement:expr) => {{
        let Some($connection) = $self.connection.as_mut() else {
            return Err(StoreError::Unavailable("the connection was lost".into()));
        };
        let outcome = match timeout(ANSWER, $statement).await {
            Ok(outcome) => outcome,
            Err(late) => Err(StoreError::Unavailable(Box::new(late))),
        };
        if matches!(outcome, Err(StoreError::Unavailable(_))) {
            if let Some(mut lost) = $self.connection.take() {
                lost.forget();
            }
        }
        outcome
    }};
}

#[async_trait]
impl<C: ServerConnection + 'static> Connection for Pooled<C> {
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        if sql == self.begin {
            self.begun = true;
        }
        let changed = if values.is_empty() {
            answered!(self, |connection| connection.simple(sql))?
        } else {
            answered!(self, |connection| connection.execute(sql, values))?
        };
        if sql == COMMIT {
            self.begun = false;
        }
        Ok(changed)
    }

    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        answered!(self, |connection| connection.fetch(sql, values))
    }
}

impl<C: ServerConnection + 'static> Drop for Pooled<C> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a connection outlives who gives it back, as in the driver's pool"
    )]
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take().filter(|_| self.begun) else { return };
        match Handle::try_current() {
            // Should the task itself be dropped, its runtime ends, and the driver closes what it was to give back.
            Ok(runtime) => drop(runtime.spawn(roll_back(connection))),
            Err(_) => connection.forget(),
        }
    }
}

async fn roll_back<C: ServerConnection>(connection: C) {
    // Until it is rolled back it is not to be given back, whatever becomes of this future.
    let mut connection = Forgotten(Some(connection));
    let Some(open) = connection.0.as_mut() else { return };
    if matches!(timeout(ANSWER, open.simple("ROLLBACK")).await, Ok(Ok(_))) {
        drop(connection.0.take());
    }
}

/// Closes its connection if it still has one.
struct Forgotten<C: ServerConnection>(Option<C>);

impl<C: ServerConnection> Drop for Forgotten<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.as_mut() {
            connection.forget();
        }
    }
}
