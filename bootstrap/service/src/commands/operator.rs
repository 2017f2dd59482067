//! Operator for commands: runs the API's operator use cases directly on the database, also while a process serves it. A
//! user with write access to the database counts as an operator with every role.

use std::sync::Arc;

use handover_events::{TenantId, Trace};
use handover_memory::MemoryBroker;
use handover_outbox::operations;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{Broker, StoreError};
use handover_runtime::settings::DatabaseChoice;
use handover_runtime::stores::AttachedDatabase;
use handover_runtime::terminal::Common;
use handover_runtime::{Failure, brokers};
use handover_sql::SqlStore;
use marketplace::{Actor, App, CommandContext, queues};
use marketplace_wiring::adapters::{PARTS, application_for_command};
use marketplace_wiring::config::Config;

/// Systems that a command accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The command accesses only the database.
    Store,
    /// The command accesses the database and the broker.
    Broker,
}

/// An operator with direct access to the database.
pub(super) struct Operator {
    pub(super) app: App,
    pub(super) context: CommandContext,
    pub(super) acting: operations::Operator,
    pub(super) database: DatabaseChoice,
    store: SqlStore,
}

impl Operator {
    /// Opens the configured database, if its schema is current.
    pub(super) async fn open(common: &Common, reach: Reach) -> Result<Operator, Failure> {
        let config: Config = common.load()?;
        let database = AttachedDatabase::readable(&config.database, PARTS).await?;
        let broker: Arc<dyn Broker> = match reach {
            Reach::Broker => {
                let topology = queues::topology(config.rules.pending_timeout);
                brokers::for_command(&config.broker, &database.store, &topology)?
            }
            // A placeholder: a command with `Reach::Store` never uses the broker.
            Reach::Store => Arc::new(MemoryBroker::new(Arc::clone(&database.clock))),
        };
        let app = application_for_command(&config, &database, broker)?;
        let trace = Trace { trace_id: trace_id(&app), traceparent: None };
        let actor = Actor::CommandLine(user());
        let context = CommandContext { actor, tenant: TenantId::DEFAULT, trace, idempotency: None };
        let acting = context.operator().map_err(|error| Failure::Refused { why: error.to_string() })?;
        Ok(Operator { app, context, acting, database: config.database, store: database.store })
    }

    /// Closes the database. On PostgreSQL, pending wake-up notifications are sent first.
    pub(super) async fn close(&self) {
        self.store.close().await;
    }

    pub(super) fn failed(&self, error: OperationError) -> Failure {
        match error {
            OperationError::Store(cause) => self.database_failed(cause),
            OperationError::Broker(cause) => cause.into(),
            error @ (OperationError::NotFound { .. } | OperationError::NothingBlocked) => {
                Failure::Refused { why: error.to_string() }
            }
        }
    }

    pub(super) fn database_failed(&self, cause: StoreError) -> Failure {
        Failure::database(&self.database)(cause)
    }

    /// Like [`Operator::failed`]; `NotFound` becomes [`Operator::missing`].
    pub(super) fn failed_to_find(&self, error: OperationError, what: String, see: &'static str) -> Failure {
        match error {
            OperationError::NotFound { .. } => self.missing(what, see),
            error @ (OperationError::NothingBlocked
            | OperationError::Store(_)
            | OperationError::Broker(_)) => self.failed(error),
        }
    }

    /// The error for named rows that do not exist.
    pub(super) fn missing(&self, what: String, see: &'static str) -> Failure {
        Failure::Missing { what, see, database: self.database.clone() }
    }
}

fn trace_id(app: &App) -> String {
    format!("{:016x}{:016x}", app.tx.random.next(), app.tx.random.next())
}

/// The system user: its name, or its numeric id if no name is set.
fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let named = named.map(|name| name.trim().to_owned()).find(|name| !name.is_empty());
    named.unwrap_or_else(user_id)
}

/// Numeric id of the user that runs this process, where `/proc` shows it.
fn user_id() -> String {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or_else(|_| "unknown".to_owned(), |process| process.uid().to_string())
}
