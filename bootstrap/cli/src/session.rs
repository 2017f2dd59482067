//! Access of a command to the database. A user with write access to the database counts as an operator who sees all
//! tenants and personal data.

use std::sync::Arc;

use handover_events::{TenantId, Trace};
use handover_memory::MemoryBroker;
use handover_outbox::Outbox;
use handover_outbox::operations::{OperationError, Operator};
use handover_outbox::ports::{Broker, StoreError};
use handover_runtime::stores::AttachedDatabase;
use handover_runtime::terminal::Common;
use handover_runtime::{Failure, brokers};

use crate::program::Program;

/// Systems that a command accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The command accesses only the database.
    Store,
    /// The command accesses the database and the broker.
    Broker,
}

/// An operator with direct access to the database of a program.
pub struct Session<P> {
    /// The configuration of the program.
    pub config: P,
    /// The database.
    pub database: AttachedDatabase,
    /// The outbox of the program.
    pub outbox: Outbox,
    /// The operator, for the audit log.
    pub operator: Operator,
}

impl<P: Program> Session<P> {
    /// Opens the configured database, if its schema is current.
    pub async fn open(common: &Common, reach: Reach) -> Result<Session<P>, Failure> {
        let config: P = common.load()?;
        let database = AttachedDatabase::readable(config.config().database, P::PARTS).await?;
        let broker: Arc<dyn Broker> = match reach {
            Reach::Broker => {
                brokers::for_command(config.config().broker, &database.store, &config.topology())?
            }
            // A placeholder: a command with `Reach::Store` never uses the broker.
            Reach::Store => Arc::new(MemoryBroker::new(Arc::clone(&database.clock))),
        };
        let outbox = config.outbox(&database, broker)?;
        let trace_id = format!("{:016x}{:016x}", outbox.tx.random().next(), outbox.tx.random().next());
        let operator = Operator {
            name: format!("command-line:{}", user()),
            tenant: TenantId::DEFAULT,
            sees_all_tenants: true,
            sees_personal_data: true,
            trace: Trace { trace_id, traceparent: None },
        };
        Ok(Session { config, database, outbox, operator })
    }
}

impl<P> Session<P> {
    /// Closes the database. On PostgreSQL, pending wake-up notifications are sent first.
    pub async fn close(&self) {
        self.database.store.close().await;
    }

    /// The failure of an operation.
    pub fn failed(&self, error: OperationError) -> Failure {
        match error {
            OperationError::Store(cause) => self.database_failed(cause),
            OperationError::Broker(cause) => cause.into(),
            error @ (OperationError::NotFound { .. } | OperationError::NothingBlocked) => {
                Failure::Refused { why: error.to_string() }
            }
        }
    }

    /// The failure of a statement.
    pub fn database_failed(&self, cause: StoreError) -> Failure {
        Failure::database(&self.database.choice)(cause)
    }

    /// Like [`Session::failed`]; `NotFound` becomes [`Session::missing`].
    pub fn failed_to_find(&self, error: OperationError, what: String, see: &'static str) -> Failure {
        match error {
            OperationError::NotFound { .. } => self.missing(what, see),
            error @ (OperationError::NothingBlocked
            | OperationError::Store(_)
            | OperationError::Broker(_)) => self.failed(error),
        }
    }

    /// The error for named rows that do not exist; the command `see` lists existing rows.
    pub fn missing(&self, what: String, see: &'static str) -> Failure {
        Failure::Missing { what, see, database: self.database.choice.clone() }
    }
}

/// The system user: its name, or its numeric id if no name is set.
pub fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let named = named.map(|name| name.trim().to_owned()).find(|name| !name.is_empty());
    named.unwrap_or_else(user_id)
}

/// Numeric id of the user that runs this process, where `/proc` shows it.
fn user_id() -> String {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or_else(|_| "unknown".to_owned(), |process| process.uid().to_string())
}
