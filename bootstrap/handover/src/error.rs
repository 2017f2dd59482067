//! Errors: what failed, why, and what to do.

mod build;

use std::time::Duration;

use handover_events::AggregateIdError;
use handover_outbox::UnitError;
use handover_outbox::consumers::HandlerError as StoredError;
use handover_outbox::ports::{BrokerError, OlderRelay, StoreError};
use handover_outbox::runtime::PrepareError;
#[cfg(feature = "sqlx")]
use handover_sql::{SchemaError, UnsuitableSetting};

pub use build::BuildError;

/// Error of [`Enqueuer::enqueue`](crate::Enqueuer::enqueue). The event was not enqueued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The event type is not registered.
    #[error(
        "the event type {event:?} is not registered{}; add `.event::<{rust_type}>()` or a consumer of it to the builder",
        nearest.map(|name| format!(" (the nearest name that is: {name:?})")).unwrap_or_default()
    )]
    Unregistered {
        /// Name of the event type.
        event: &'static str,
        /// Its Rust type.
        rust_type: &'static str,
        /// The registered name that is most similar.
        nearest: Option<&'static str>,
    },
    /// The event is about an aggregate of another service, whose events this service receives.
    #[error(
        "the event {event:?} is about {aggregate:?}, whose events this service receives from the exchange {exchange:?}: they have one \
         order only if one service numbers them; enqueue it in the service that publishes to this exchange, or give it another \
         aggregate type"
    )]
    Received {
        /// Name of the event type.
        event: &'static str,
        /// Its aggregate type.
        aggregate: &'static str,
        /// The exchange of the other service.
        exchange: String,
    },
    /// The connection is in no transaction.
    #[error(
        "the connection is in no transaction: the event must be committed together with the change that it announces; begin \
         a transaction with `pool.begin()` and pass `&mut tx`"
    )]
    NoTransaction {},
    /// The payload is not a JSON object.
    #[error(
        "the payload of {event:?} is not a JSON object, so no consumer could read it; an event is a struct with named fields \
         that serde writes as an object"
    )]
    NotAnObject {
        /// Name of the event type.
        event: &'static str,
    },
    /// The payload contains another key than the event has.
    #[error(
        "the payload of {event:?} contradicts its key: {why}; no consumer could apply the event; let serde write the key as \
         it is: an integer as a number, a text unchanged, a UUID in lower case with hyphens"
    )]
    Contradiction {
        /// Name of the event type.
        event: &'static str,
        /// The two values.
        why: String,
    },
    /// The text key of the aggregate is empty, too long or contains characters that a store cannot hold.
    #[error("the key {key:?} of {event:?} cannot be the id of an aggregate: {cause}")]
    Key {
        /// Name of the event type.
        event: &'static str,
        /// Name of the field in JSON.
        key: &'static str,
        /// What the key must be.
        cause: AggregateIdError,
    },
    /// The event has a text key, and a process of an older version, which cannot publish it, is running.
    #[error(transparent)]
    OlderProcess {
        /// The relay of that process.
        cause: OlderRelay,
    },
    /// The payload cannot be written as JSON.
    #[error("the payload of {event:?} cannot be written as JSON: {cause}")]
    Payload {
        /// Name of the event type.
        event: &'static str,
        /// The error of serde.
        cause: serde_json::Error,
    },
    /// The payload is JSON that relay and consumers cannot read.
    #[error("no consumer could read the payload of {event:?}: {cause}; nest its values less deeply")]
    Unreadable {
        /// Name of the event type.
        event: &'static str,
        /// The error of serde.
        cause: serde_json::Error,
    },
    /// The event names a consumer as idle that no event can exclude.
    #[error(
        "the event {event:?} names {consumer:?} as idle, and this outbox has no selective consumer of this name; add \
         `.selective()` to the functions of the consumer, or leave `idle_consumer` out"
    )]
    NotSelective {
        /// Name of the event type.
        event: &'static str,
        /// The name in [`Options::idle_consumer`](crate::Options::idle_consumer).
        consumer: String,
    },
    /// The position in [`Options::sequence`](crate::Options::sequence) is less than 1.
    #[error(
        "the position of {event:?} within its aggregate is {sequence}: positions begin at 1, and a service that receives events does \
         not accept a smaller one; add 1 to your version, for all events of the aggregate type"
    )]
    InvalidSequence {
        /// Name of the event type.
        event: &'static str,
        /// The position.
        sequence: i64,
    },
    /// The trace or the request has an id that not every broker and log can carry.
    #[error(
        "the {what} of {event:?} is {id:?}: an id has 1 to 64 characters of `[A-Za-z0-9_-]`, because not every broker accepts a message with \
         another one; check the header of a client with `Trace::is_valid_id`, and leave an invalid one out"
    )]
    InvalidId {
        /// Name of the event type.
        event: &'static str,
        /// `trace id` or `request id`.
        what: &'static str,
        /// The first 64 characters of the id.
        id: String,
    },
    /// The database refused the row, or the connection was lost. Roll the transaction back: on PostgreSQL it cannot be
    /// committed any more.
    #[error("the event was not stored: {0}")]
    Store(#[from] StoreError),
}

/// A unit of work that enqueues may fail with this error.
impl UnitError for EnqueueError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            EnqueueError::Store(cause) => Some(cause),
            EnqueueError::NotAnObject { .. }
            | EnqueueError::Contradiction { .. }
            | EnqueueError::InvalidId { .. }
            | EnqueueError::InvalidSequence { .. }
            | EnqueueError::Key { .. }
            | EnqueueError::NotSelective { .. }
            | EnqueueError::OlderProcess { .. }
            | EnqueueError::Payload { .. }
            | EnqueueError::Received { .. }
            | EnqueueError::Unreadable { .. }
            | EnqueueError::Unregistered { .. }
            | EnqueueError::NoTransaction {} => None,
        }
    }
}

impl EnqueueError {
    /// Whether the transaction may succeed if it is repeated from its begin: a deadlock, a serialization failure, an outage of the
    /// database, or an older process that ends soon.
    ///
    /// After a deadlock, at `enqueue` or at a statement of your own, nothing else MUST be executed in the same transaction: MySQL and MariaDB
    /// have rolled it back, and commit each later statement by itself.
    pub fn is_transient(&self) -> bool {
        matches!(self, EnqueueError::OlderProcess { .. })
            || self.store_error().is_some_and(|cause| cause.is_retryable() || cause.is_outage())
    }

    /// The error for the consumer whose handler enqueues an event.
    pub(crate) fn into_stored(self) -> StoredError {
        match self {
            EnqueueError::Store(cause) => cause.into(),
            // An outage, which counts no attempt.
            EnqueueError::OlderProcess { cause } => StoreError::Unavailable(Box::new(cause)).into(),
            EnqueueError::NotAnObject { .. }
            | EnqueueError::Contradiction { .. }
            | EnqueueError::InvalidId { .. }
            | EnqueueError::InvalidSequence { .. }
            | EnqueueError::Key { .. }
            | EnqueueError::NotSelective { .. }
            | EnqueueError::Payload { .. }
            | EnqueueError::Received { .. }
            | EnqueueError::Unreadable { .. }
            | EnqueueError::Unregistered { .. }
            | EnqueueError::NoTransaction {} => StoredError::Recoverable(self.to_string()),
        }
    }
}

/// Error of [`Outbox::migrate`](crate::Outbox::migrate), [`Outbox::start`](crate::Outbox::start),
/// [`Running::stop`](crate::Running::stop) and operators' commands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// See [`BuildError`].
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The database failed.
    #[error("the outbox cannot use the database: {cause}; {}", remedy(cause))]
    Store {
        /// The error.
        #[from]
        cause: StoreError,
    },
    /// The tables of the outbox cannot be created in this database.
    #[cfg(feature = "sqlx")]
    #[error(
        "the tables of the outbox cannot be created in the database: {0}; rename it, or give the tables of the outbox a prefix \
         with `Builder::table_prefix`, or let the connection options of the pool name another schema (`search_path`) or \
         database"
    )]
    Schema(SchemaError),
    /// The tables of the outbox do not exist, or are of an earlier version.
    #[error(
        "the tables of the outbox have {}, and version {needed} is needed; call `outbox.migrate().await` before `start`",
        found.map_or_else(|| "not been created".to_owned(), |version| format!("version {version}"))
    )]
    NotMigrated {
        /// The version of the tables.
        found: Option<i64>,
        /// The version that this program needs.
        needed: i64,
    },
    /// A later version of the toolkit has changed the tables.
    #[error(
        "the tables of the outbox have version {found}, which this program does not know: it needs version {needed}; use a \
         version of the crate that is at least as new as the one that migrated the database"
    )]
    NewerSchema {
        /// The version of the tables.
        found: i64,
        /// The version that this program needs.
        needed: i64,
    },
    /// A setting of the server is unsuitable.
    #[cfg(feature = "sqlx")]
    #[error("the database has an unsuitable setting, {}: {}; {}", .0, .0.why, .0.remedy)]
    Setting(UnsuitableSetting),
    /// The broker is unreachable, or refused a request.
    #[error("the outbox cannot use the broker: {0}")]
    Broker(BrokerError),
    /// An operators' command was refused, or found no such row.
    #[cfg(feature = "cli")]
    #[error("{what}: {why}; {remedy}")]
    Command {
        /// What failed.
        what: String,
        /// The reason.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The result of an operators' command cannot be written.
    #[cfg(feature = "cli")]
    #[error("stdout cannot be written: {cause}")]
    Output {
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// The outbox is running.
    #[error("the outbox is running; one process starts it once")]
    Running {},
    /// The outbox is on a store of the application, and its tasks have ended.
    #[error(
        "the outbox is on a store of your own and was stopped: the tasks of its transactor have ended; build another outbox to start \
         again"
    )]
    Stopped {},
    /// Tasks did not end in time.
    #[error(
        "the tasks of the outbox did not end within {limit:?}; what they had not committed is repeated after the next start"
    )]
    NotStopped {
        /// The time limit.
        limit: Duration,
    },
}

/// What to do about an error of the database.
fn remedy(error: &StoreError) -> &'static str {
    match (error.system_fault(), error) {
        (Some(fault), _) => fault.kind.remedy(),
        (None, StoreError::Transient(_)) => "another transaction holds a lock; try it again",
        (None, StoreError::Backend(_)) => {
            "correct what the message of the database says, such as a missing right to create tables in the schema"
        }
        (None, _) => "check that the database accepts connections with the options of the pool",
    }
}

#[cfg(feature = "sqlx")]
impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Error {
        match error {
            SchemaError::Store(cause) => Error::Store { cause },
            error @ (SchemaError::Unreleased | SchemaError::ForeignRelation { .. }) => Error::Schema(error),
        }
    }
}

impl From<PrepareError> for Error {
    fn from(error: PrepareError) -> Error {
        match error {
            PrepareError::Store(cause) => Error::Store { cause },
            PrepareError::Broker(cause) => Error::Broker(cause),
        }
    }
}
