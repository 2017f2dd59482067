//! Conversions of errors of the toolkit to failures.

use std::io;

use handover_outbox::ports::{BrokerError, StoreError};
use handover_outbox::runtime::PrepareError;
use handover_sql::{ForeignLog, SchemaError, access_refusal};
use handover_system::EntropyError;

use super::Failure;
use crate::config::ConfigErrors;
use crate::settings::DatabaseChoice;
use crate::terminal::OutputError;

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Failure {
        Failure::Config { errors }
    }
}

impl From<BrokerError> for Failure {
    fn from(cause: BrokerError) -> Failure {
        Failure::Broker { cause }
    }
}

impl From<EntropyError> for Failure {
    fn from(cause: EntropyError) -> Failure {
        Failure::Entropy { cause }
    }
}

impl From<OutputError> for Failure {
    fn from(OutputError(cause): OutputError) -> Failure {
        Failure::System { what: "cannot write to stdout", cause }
    }
}

impl Failure {
    /// The thread that writes to stderr cannot be started.
    pub(crate) fn no_log_thread(cause: io::Error) -> Failure {
        Failure::System { what: "cannot start the thread that writes the log", cause }
    }

    /// Converts store errors of this database to failures.
    pub fn database(database: &DatabaseChoice) -> impl FnOnce(StoreError) -> Failure {
        let database = database.clone();
        move |cause| match (foreign_log(&cause), access_refusal(&cause)) {
            (Some(log), _) => Failure::ForeignLog { log },
            (None, Some(message)) => Failure::AccessRefused { database, message },
            (None, None) => Failure::Database { database, cause },
        }
    }

    /// Converts schema errors of this database to failures.
    pub fn schema(database: &DatabaseChoice) -> impl FnOnce(SchemaError) -> Failure {
        let database = database.clone();
        move |error| match error {
            SchemaError::Unreleased => Failure::SchemaUnreleased { database },
            SchemaError::ForeignRelation { kind, name } => {
                Failure::SchemaForeign { database, relation: format!("{kind} {name}") }
            }
            SchemaError::Store(cause) => Failure::database(&database)(cause),
        }
    }

    /// Converts errors of a migration of this database to failures.
    pub fn migration(database: &DatabaseChoice) -> impl FnOnce(SchemaError) -> Failure {
        let database = database.clone();
        move |error| match error {
            SchemaError::Store(cause) if !cause.is_outage() => Failure::Migration { database, cause },
            SchemaError::Store(_) | SchemaError::Unreleased | SchemaError::ForeignRelation { .. } => {
                Failure::schema(&database)(error)
            }
        }
    }

    /// Converts errors of the preparation of a process on this database to failures.
    pub fn prepare(database: &DatabaseChoice) -> impl FnOnce(PrepareError) -> Failure {
        let database = database.clone();
        move |error| match error {
            PrepareError::Store(cause) => Failure::database(&database)(cause),
            PrepareError::Broker(cause) => cause.into(),
        }
    }
}

fn foreign_log(error: &StoreError) -> Option<ForeignLog> {
    let StoreError::Backend(cause) = error else { return None };
    cause.downcast_ref().cloned()
}
