//! What `build` refuses.

use std::time::Duration;

use handover_events::RetryPolicyError;
#[cfg(feature = "sqlx")]
use handover_sql::InvalidTablePrefix;
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
    /// A consumer receives events of another service, and there is no broker between them.
    #[error(
        "consumer {consumer:?} receives from the exchange {exchange:?}, and the outbox has no broker: its messages are rows of \
         its own database, where no other service publishes; add `.broker(RabbitMq::new(url)?)` to the builder, or leave out \
         `.from(..)` if this service enqueues the events"
    )]
    ReceivesWithoutBroker {
        /// Name of the consumer.
        consumer: String,
        /// The exchange.
        exchange: String,
    },
    /// A consumer receives events from the exchange of its own service.
    #[error(
        "consumer {consumer:?} receives from the exchange {exchange:?}, which is that of this service: its own events reach its \
         consumers anyway; leave out `.from(..)`, or name the exchange of the other service"
    )]
    OwnExchange {
        /// Name of the consumer.
        consumer: String,
        /// The exchange.
        exchange: String,
    },
    /// The name of an exchange is empty or too long.
    #[error(
        "consumer {consumer:?} receives from the exchange {exchange:?}: the name of an exchange has 1 to 255 bytes; that of a \
         service with this crate is its name and `.events`"
    )]
    InvalidExchange {
        /// Name of the consumer.
        consumer: String,
        /// The exchange.
        exchange: String,
    },
    /// A consumer of events of another service is selective.
    #[error(
        "consumer {consumer:?} is selective and receives from the exchange {exchange:?}: a service can exclude only its own \
         consumers from an event; leave out `.selective()`, and return without an effect for events that mean no work"
    )]
    SelectiveReceiver {
        /// Name of the consumer.
        consumer: String,
        /// The exchange.
        exchange: String,
    },
    /// Events about one aggregate type come from two services.
    #[error(
        "the event types {first:?} of {first_origin} and {second:?} of {second_origin} are both about {aggregate:?}: each service \
         numbers the events of an aggregate on its own, so there is no common order; use another aggregate type in one of \
         them, or receive both from the service that publishes them"
    )]
    TwoOrigins {
        /// The aggregate type.
        aggregate: &'static str,
        /// Name of an event type.
        first: &'static str,
        /// The service that publishes it.
        first_origin: String,
        /// Name of another event type, or the same.
        second: &'static str,
        /// The service that publishes it.
        second_origin: String,
    },
    /// A name cannot be stored.
    #[error("the name of {of} is {name:?}: a name has 1 to 64 visible ASCII characters, without spaces")]
    InvalidName {
        /// What has this name.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// An outbox on a store of the application has no broker.
    #[error(
        "the outbox is on a store of your own and has no broker: only the databases of this crate have tables for messages; add \
         `.broker(..)` to the builder"
    )]
    NoBroker {},
    /// The prefix of the tables is invalid.
    #[cfg(feature = "sqlx")]
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
