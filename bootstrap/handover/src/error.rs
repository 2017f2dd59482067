//! Errors: what failed, why, and what to do.

use std::time::Duration;

use handover_events::{AggregateIdError, RetryPolicyError};
use handover_outbox::consumers::HandlerError as StoredError;
use handover_outbox::ports::{BrokerError, OlderRelay, StoreError};
use handover_outbox::runtime::PrepareError;
use handover_sql::{InvalidTablePrefix, SchemaError, UnsuitableSetting};
use handover_system::EntropyError;

/// Error of [`Builder::build`](crate::Builder::build): the parts do not fit together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two consumers have the same name.
    #[error(
        "two consumers are named {name:?}: the name identifies the record of what a consumer has applied; give each \
         consumer a name of its own, or put both functions into one consumer with `.and(..)`"
    )]
    ConsumerTwice {
        /// The name.
        name: String,
    },
    /// A consumer has two functions for one event type.
    #[error(
        "consumer {consumer:?} has two functions for the event type {event:?}: each event is applied by one function; \
         call both from one function, or add a second consumer"
    )]
    FunctionTwice {
        /// Name of the consumer.
        consumer: String,
        /// Name of the event type.
        event: &'static str,
    },
    /// A function takes a value that was not given.
    #[error(
        "a function of consumer {consumer:?} takes Data<{data}>, and no such value was given; add `.data(..)` with a value \
         of this type to the builder"
    )]
    MissingData {
        /// Name of the consumer.
        consumer: String,
        /// The Rust type of the value.
        data: &'static str,
    },
    /// Two Rust types have the same event name.
    #[error(
        "the event name {event:?} belongs to two types, {first} and {second}: a name stands for one definition of payload, \
         key and routing key; rename one of them in `#[event(name = \"..\")]`, or use one type for both"
    )]
    EventTwice {
        /// The event name.
        event: &'static str,
        /// One Rust type.
        first: &'static str,
        /// The other Rust type.
        second: &'static str,
    },
    /// A retry policy is invalid.
    #[error("the retry policy of consumer {consumer:?} is invalid: {cause}")]
    InvalidRetry {
        /// Name of the consumer.
        consumer: String,
        /// What is wrong with it.
        cause: RetryPolicyError,
    },
    /// A time limit is zero, or too long.
    #[error(
        "the time limit for an attempt of consumer {consumer:?} is {limit:?}: it must be longer than zero and at most a day; \
         change `.timeout(..)`, or leave it out: the default is 10 s"
    )]
    InvalidTimeout {
        /// Name of the consumer.
        consumer: String,
        /// The time limit.
        limit: Duration,
    },
    /// Rows would be deleted or archived too early.
    #[error(
        "`.{setting}(..)` has the time {time:?}: it must be at least {min:?}, so that nothing leaves its table while it is still \
         needed; use a longer time"
    )]
    ShortRetention {
        /// The method of the builder.
        setting: &'static str,
        /// The time.
        time: Duration,
        /// The shortest time.
        min: Duration,
    },
    /// A consumer has the name of the queue of dead letters.
    #[error(
        "a consumer is named \"dead-letters\": its queue would be that of the dead letters of all consumers; give the \
         consumer another name"
    )]
    ReservedConsumer {},
    /// A routing key cannot be stored, or is a pattern.
    #[error(
        "the routing key of the event type {event:?} is {routing_key:?}: a routing key has 1 to 255 visible ASCII \
         characters, without spaces, and none of its words between dots is `*` or `#`, which match other keys; set another \
         one in `#[event(routing_key = \"..\")]`"
    )]
    InvalidRoutingKey {
        /// Name of the event type.
        event: &'static str,
        /// Its routing key.
        routing_key: &'static str,
    },
    /// An event type has the routing key of dead letters.
    #[error(
        "the routing key of the event type {event:?} is {routing_key:?}, which is that of the dead letters of this service: \
         the event would become one; set another one in `#[event(routing_key = \"..\")]`, or rename the service"
    )]
    DeadLetterKey {
        /// Name of the event type.
        event: &'static str,
        /// Its routing key.
        routing_key: &'static str,
    },
    /// A consumer applies one of two event types with the same routing key.
    #[error(
        "the event types {applied:?} and {other:?} have the same routing key, {routing_key:?}, and consumer {consumer:?} has \
         a function for {applied:?} only: it would receive each {other:?} and record it as a dead letter; give the types \
         different routing keys, or add a function for {other:?} with `.and(..)`"
    )]
    SharedRoutingKey {
        /// Name of the consumer.
        consumer: String,
        /// The routing key.
        routing_key: &'static str,
        /// Name of the event type that the consumer applies.
        applied: &'static str,
        /// Name of the other event type.
        other: &'static str,
    },
    /// A name cannot be stored.
    #[error("the name of {of} is {name:?}: a name has 1 to 64 visible ASCII characters, without spaces")]
    InvalidName {
        /// What has this name.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// The prefix of the tables is invalid.
    #[error(transparent)]
    TablePrefix(#[from] InvalidTablePrefix),
    /// The pool is on an SQLite database in memory.
    #[error(
        "the SQLite database is in memory: relay and consumers use connections of their own, and each of them would open \
         another database; use a file, in tests a temporary one"
    )]
    NoFile {},
    /// The pool is on a MySQL server without a database.
    #[error(
        "the connection options of the pool name no database: the tables of the outbox are created in it; name it in the \
         URL or with `MySqlConnectOptions::database`"
    )]
    NoDatabase {},
    /// The URL of the broker is invalid.
    #[error("{why}; expected amqp://user:password@host:port/vhost")]
    InvalidUrl {
        /// The reason, without the URL, which contains a password.
        why: String,
    },
    /// The operating system provides no random numbers, which ids need.
    #[error(transparent)]
    Random(#[from] EntropyError),
}

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
    /// The database refused the row, or the connection was lost. Roll the transaction back: on PostgreSQL it cannot be
    /// committed any more.
    #[error("the event was not stored: {0}")]
    Store(#[from] StoreError),
}

impl EnqueueError {
    /// The error for the consumer whose handler enqueues an event.
    pub(crate) fn into_stored(self) -> StoredError {
        match self {
            EnqueueError::Store(cause) => cause.into(),
            // An outage, which counts no attempt.
            EnqueueError::OlderProcess { cause } => StoreError::Unavailable(Box::new(cause)).into(),
            EnqueueError::NotAnObject { .. }
            | EnqueueError::Contradiction { .. }
            | EnqueueError::Key { .. }
            | EnqueueError::NotSelective { .. }
            | EnqueueError::Payload { .. }
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
    match error.system_fault() {
        Some(fault) => fault.kind.remedy(),
        None => "check that the database accepts connections with the options of the pool",
    }
}

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
