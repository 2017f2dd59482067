//! Access of a command to an outbox. A user with write access to its database counts as an operator who sees all tenants
//! and personal data.

use async_trait::async_trait;
use clap::Args;
use handover_events::{TenantId, Trace};
use handover_outbox::Outbox;
use handover_outbox::archive::Archive;
use handover_outbox::operations::{OperationError, Operator};
use handover_outbox::ports::{BrokerError, RandomSource, StoreError};
use handover_runtime::terminal::OutputError;

use crate::failure::CommandFailure;

/// Systems that a command accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The command accesses only the database.
    Store,
    /// The command accesses the database and the broker.
    Broker,
}

/// Access of a command to an outbox, also while processes serve its database.
#[async_trait]
pub trait Access: Sized + Send + Sync {
    /// What the access is opened from, besides the flags.
    type Source: Send + Sync + ?Sized;

    /// The flags of every command that select the outbox.
    type Flags: Args + Send + Sync;

    /// Reason why a command failed.
    type Failure: From<CommandFailure> + From<OutputError> + Send;

    /// Opens the database, if its schema is current.
    async fn open(source: &Self::Source, flags: &Self::Flags, reach: Reach) -> Result<Self, Self::Failure>;

    /// The outbox.
    fn outbox(&self) -> &Outbox;

    /// The archive of the outbox; `None`: it is off.
    fn archive(&self) -> Result<Option<Archive>, Self::Failure> {
        Ok(None)
    }

    /// The operator, for the audit log.
    fn operator(&self) -> &Operator;

    /// Closes the database. On PostgreSQL, pending wake-up notifications are sent first.
    async fn close(&self);

    /// The failure of a statement.
    fn database_failed(&self, cause: StoreError) -> Self::Failure;

    /// The failure of a request to the broker.
    fn broker_failed(&self, cause: BrokerError) -> Self::Failure;

    /// The failure for named rows that do not exist; the command `see` lists existing rows.
    fn missing(&self, what: String, see: &'static str) -> Self::Failure;

    /// The failure of an operation.
    fn failed(&self, error: OperationError) -> Self::Failure {
        match error {
            OperationError::Store(cause) => self.database_failed(cause),
            OperationError::Broker(cause) => self.broker_failed(cause),
            OperationError::Archive(cause) => CommandFailure::Archive { why: cause.to_string() }.into(),
            error @ (OperationError::NotFound { .. }
            | OperationError::NothingBlocked
            | OperationError::Archived { .. }
            | OperationError::ForAllTenants) => CommandFailure::Refused { why: error.to_string() }.into(),
        }
    }

    /// Like [`Access::failed`]; `NotFound` becomes [`Access::missing`].
    fn failed_to_find(&self, error: OperationError, what: String, see: &'static str) -> Self::Failure {
        match error {
            OperationError::NotFound { .. } => self.missing(what, see),
            error @ (OperationError::NothingBlocked
            | OperationError::ForAllTenants
            | OperationError::Archived { .. }
            | OperationError::Store(_)
            | OperationError::Broker(_)
            | OperationError::Archive(_)) => self.failed(error),
        }
    }
}

/// The flags of commands on an outbox that the program itself has built: none.
#[derive(Debug, Clone, Copy, Args)]
pub struct NoFlags {}

/// The system user as an operator, under a new trace id.
pub fn operator(random: &dyn RandomSource) -> Operator {
    Operator {
        name: format!("command-line:{}", user()),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: true,
        sees_personal_data: true,
        trace: Trace { trace_id: format!("{:016x}{:016x}", random.next(), random.next()), traceparent: None },
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
