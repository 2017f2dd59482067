//! Access of a command to an outbox. A user with write access to its database counts as an operator who sees all tenants
//! and personal data.

use async_trait::async_trait;
use clap::Args;
use handover_events::{TenantId, Trace};
use handover_outbox::Outbox;
use handover_outbox::Transactor;
use handover_outbox::operations::{OperationError, Operator};
use handover_outbox::ports::{BrokerError, RandomSource, StoreError, UnitOfWork, View};
use handover_runtime::terminal::{OutputError, note};
use nix::unistd::{Uid, User};

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
            error @ OperationError::OldestPublished => CommandFailure::Usage {
                what: error.to_string(),
                remedy: "use --oldest without --status, or with --status new, retry or failed".to_owned(),
            }
            .into(),
            OperationError::UnknownName { field, name, nearest } => {
                CommandFailure::UnknownName { field, name, nearest }.into()
            }
            error @ (OperationError::NotFound { .. }
            | OperationError::NothingBlocked
            | OperationError::Archived { .. }
            | OperationError::ArchivedAggregate { .. }
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
            | OperationError::ArchivedAggregate { .. }
            | OperationError::UnknownName { .. }
            | OperationError::OldestPublished
            | OperationError::Store(_)
            | OperationError::Broker(_)
            | OperationError::Archive(_)) => self.failed(error),
        }
    }
}

/// Says at its end which reads of a command could not be recorded in the audit log, and why.
pub struct UnrecordedReads(Box<dyn Fn() -> Vec<String> + Send + Sync>);

impl UnrecordedReads {
    /// The reads through this transactor.
    pub fn of<U, V>(tx: &Transactor<U, V>) -> UnrecordedReads
    where
        U: UnitOfWork + ?Sized + 'static,
        V: View + ?Sized + 'static,
    {
        let tx = tx.clone();
        UnrecordedReads(Box::new(move || tx.unrecorded_reads()))
    }
}

impl Drop for UnrecordedReads {
    fn drop(&mut self) {
        for read in (self.0)() {
            note(&format!("not recorded in the audit log: {read}"));
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

/// The user of the operating system that runs this process: its name, or its numeric id if it has none. Unlike the variable
/// `USER`, the caller cannot choose it. After `sudo`, the user who called it follows: `root (SUDO_USER ada)`.
pub fn user() -> String {
    let id = Uid::current();
    let found = User::from_uid(id).ok().flatten();
    let name = found.map_or_else(|| id.to_string(), |user| user.name);
    match std::env::var("SUDO_USER").ok().filter(|caller| is_user_name(caller)) {
        Some(caller) => format!("{name} (SUDO_USER {caller})"),
        None => name,
    }
}

/// Whether a variable can be the name of a user, and not text that would look like another entry.
fn is_user_name(name: &str) -> bool {
    const MAX_CHARS: usize = 64;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    (1..=MAX_CHARS).contains(&name.len()) && name.chars().all(is_allowed)
}
