//! Builds an outbox, and refuses parts that do not fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use handover_events::{EventType, RetryPolicy};
use handover_outbox::archive::{ArchiveStorage, RetentionPolicy};
use handover_sql::TablePrefix;
use handover_system::OsRandom;
use sqlx::Pool;

use crate::broker::BrokerChoice;
use crate::clock::OutboxClock;
use crate::consumer::{Consumer, IntoConsumer, Shared};
use crate::data::Resources;
use crate::database::Database;
use crate::enqueue::Enqueuer;
use crate::error::BuildError;
use crate::layer::Layer;
use crate::outbox::Outbox;
use crate::parts::{ConnectedConsumer, DEAD_LETTERS, Parts, Role, dead_letter_key, exchange};
use crate::registration::Registration;
use crate::retention::Retention;

/// Maximum length of the names of services, consumers, event types and aggregate types.
const MAX_NAME: usize = 64;

/// Maximum length of a routing key, in a store and in AMQP.
const MAX_ROUTING_KEY: usize = 255;

/// Longest time limit of an attempt.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl<DB: Database> Outbox<DB> {
    /// A builder for an outbox in the database of this pool.
    ///
    /// The pool itself is not used: relay and consumers have a small pool of their own, with the connection options of this
    /// one. What `after_connect` of the pool sets is not part of the options.
    pub fn builder(pool: Pool<DB>) -> Builder<DB> {
        Builder {
            pool,
            name: "handover".to_owned(),
            broker: BrokerChoice::default(),
            resources: Resources::default(),
            layers: Vec::new(),
            events: Vec::new(),
            consumers: Vec::new(),
            roles: vec![Role::Relay, Role::Consumers],
            summary: false,
            connections: None,
            table_prefix: String::new(),
            clock: OutboxClock::default(),
            retention: Retention::default(),
        }
    }
}

/// Builds an [`Outbox`].
///
/// ```
/// use handover::{Data, Event, Outbox, Role, at_least_once, in_transaction};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
/// use sqlx::{Sqlite, SqliteConnection, SqlitePool};
/// # struct Mailer;
///
/// async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
///     let insert = sqlx::query("INSERT INTO reminders (reader) VALUES (?)");
///     insert.bind(&event.reader).execute(connection).await?;
///     Ok(())
/// }
///
/// async fn mail(event: Event<BookLent>, mailer: Data<Mailer>) -> handover::Result {
///     // call another system ...
///     Ok(())
/// }
///
/// fn outbox(pool: SqlitePool) -> Result<Outbox<Sqlite>, handover::BuildError> {
///     Outbox::builder(pool)
///         .name("library")
///         .data(Mailer)
///         .consumer("reminders", in_transaction(remind))
///         .consumer("mail", at_least_once(mail))
///         .roles([Role::Relay, Role::Consumers])
///         .build()
/// }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<DB: Database> {
    pool: Pool<DB>,
    name: String,
    broker: BrokerChoice,
    resources: Resources,
    layers: Vec<Box<dyn Layer>>,
    events: Vec<Registration>,
    consumers: Vec<Consumer>,
    roles: Vec<Role>,
    summary: bool,
    connections: Option<NonZeroU32>,
    table_prefix: String,
    clock: OutboxClock,
    retention: Retention,
}

impl<DB: Database> Builder<DB> {
    /// Sets the name of the service: the first part of the names of exchange and queues. The default is `handover`.
    /// Services that share a broker need different names. After a change, nobody reads what is left in the old queues.
    pub fn name(self, name: impl Into<String>) -> Builder<DB> {
        Builder { name: name.into(), ..self }
    }

    /// Publishes through a broker. Without this call, messages are rows of the same database.
    #[cfg(feature = "rabbitmq")]
    pub fn broker(self, broker: crate::broker::RabbitMq) -> Builder<DB> {
        Builder { broker: BrokerChoice::Rabbit(Box::new(broker)), ..self }
    }

    /// Gives a value to handlers, which take it as [`Data<T>`](crate::Data). A second value of the same type replaces the
    /// first.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Builder<DB> {
        self.resources.insert(value);
        self
    }

    /// Adds code around every call of a handler. The first layer is the outermost.
    pub fn layer(mut self, layer: impl Layer) -> Builder<DB> {
        self.layers.push(Box::new(layer));
        self
    }

    /// Declares an event type that this process enqueues and that has no consumer here.
    pub fn event<E: EventType>(mut self) -> Builder<DB> {
        self.events.push(Registration::of::<E>());
        self
    }

    /// Adds a consumer. Its name identifies the record of what it has applied, and MUST NOT change.
    pub fn consumer(mut self, name: impl Into<String>, functions: impl IntoConsumer<DB>) -> Builder<DB> {
        self.consumers.push(functions.into_consumer(name.into()));
        self
    }

    /// Logs a summary of the events every 10 seconds: one line for the relay and one for each consumer that had events. It is
    /// for a log whose filter disables the target `handover::event`, which has a line for every published and every
    /// applied event.
    pub fn log_summary(self) -> Builder<DB> {
        Builder { summary: true, ..self }
    }

    /// Selects the roles of this process; the default is all. Without any, it only enqueues events.
    pub fn roles(self, roles: impl IntoIterator<Item = Role>) -> Builder<DB> {
        Builder { roles: roles.into_iter().collect(), ..self }
    }

    /// Sets the maximum number of connections to a server that relay and consumers use, besides the service's own pool. The
    /// default is 3 and one for each consumer, at most 8.
    pub fn connections(self, connections: NonZeroU32) -> Builder<DB> {
        Builder { connections: Some(connections), ..self }
    }

    /// Sets a prefix of the names of the outbox's tables and indexes, such as `handover_`; the default is none. It is needed if
    /// tables of the service have the same names, or for two outboxes in one database.
    ///
    /// Set it before the first [`migrate`](Outbox::migrate), in every process, and do not change it: tables are not renamed.
    pub fn table_prefix(self, prefix: impl Into<String>) -> Builder<DB> {
        Builder { table_prefix: prefix.into(), ..self }
    }

    /// Sets how long audit entries of operators' calls that only read are kept; the default is 30 days, the minimum 7. Entries of
    /// changes are never deleted. One of the processes with [`Role::Relay`] deletes them, once an hour.
    pub fn keep_audit_reads(mut self, time: Duration) -> Builder<DB> {
        self.retention.audit_reads = time;
        self
    }

    /// Sets how long webhook deliveries that were delivered or cancelled are kept; the default is 30 days, the minimum a day. It
    /// concerns a service that sends webhooks with `handover-outbox`.
    pub fn keep_webhook_deliveries(mut self, time: Duration) -> Builder<DB> {
        self.retention.webhook_deliveries = time;
        self
    }

    /// Archives events, with the records of their consumers, when this time has passed since they were published and applied: at
    /// least an hour. Without this call every event stays in the database. The storage is one of the crate
    /// `handover-archive`, or an own [`ArchiveStorage`]. Give it to every process and command.
    ///
    /// ```
    /// use std::time::Duration;
    /// use handover::{Builder, RetentionPolicy};
    /// use handover_archive::ArchiveUrl;
    /// # use sqlx::Sqlite;
    ///
    /// fn with_archive(builder: Builder<Sqlite>) -> Result<Builder<Sqlite>, Box<dyn std::error::Error>> {
    ///     let month = Duration::from_secs(30 * 24 * 60 * 60);
    ///     let storage = ArchiveUrl::parse("file:/var/lib/library/archive")?.open()?;
    ///     Ok(builder.archive(storage, RetentionPolicy::new(month).with_type("book.lent", month * 3)))
    /// }
    /// ```
    pub fn archive(mut self, storage: Arc<dyn ArchiveStorage>, policy: RetentionPolicy) -> Builder<DB> {
        self.retention.archive = Some((storage, policy));
        self
    }

    /// Replaces the clock by one that the test advances. Give it to every outbox on the same database.
    #[cfg(feature = "test")]
    pub fn clock(self, clock: &crate::test::ManualClock) -> Builder<DB> {
        Builder { clock: clock.clone().into(), ..self }
    }

    /// Checks everything that can be checked without a connection.
    pub fn build(mut self) -> Result<Outbox<DB>, BuildError> {
        check_name("the service", &self.name)?;
        let events = self.registered_events()?;
        self.check_consumers()?;
        self.retention.check()?;
        check_routing(&self.name, &events, &self.consumers)?;
        let prefix = TablePrefix::new(self.table_prefix.clone())?;
        let location = DB::location(&self.pool)?.with_table_prefix(prefix.clone());
        let selective = self.consumers.iter().filter(|consumer| consumer.is_selective);
        let selective: BTreeSet<String> = selective.map(|consumer| consumer.name.clone()).collect();
        let enqueuer =
            Enqueuer::<DB>::new(events, selective, self.clock.clone(), OsRandom::seeded()?, prefix);
        self.resources.insert(enqueuer.clone());
        self.check_data()?;
        let connections = self.connections.unwrap_or_else(|| default_connections(self.consumers.len()));
        let shared = Shared {
            resources: Arc::new(self.resources),
            system: self.broker.system(),
            exchange: exchange(&self.name).into(),
            layers: self.layers.into(),
        };
        let queue = |consumer: &str| format!("{}.{consumer}", self.name);
        let consumers = std::mem::take(&mut self.consumers).into_iter().map(|consumer| ConnectedConsumer {
            routing_keys: consumer.events.iter().map(|event| event.routing_key).collect(),
            subscriber: (consumer.connect)(queue(&consumer.name), shared.clone()),
            is_selective: consumer.is_selective,
        });
        let consumers: Vec<ConnectedConsumer> = consumers.collect();
        let Builder { name, broker, roles, summary, retention, .. } = self;
        let parts = Parts { location, name, broker, consumers, roles, summary, connections, retention };
        Ok(Outbox::new(enqueuer, parts))
    }

    /// The declared event types and those of the consumers.
    fn registered_events(&self) -> Result<BTreeMap<&'static str, Registration>, BuildError> {
        let mut registered = BTreeMap::<_, Registration>::new();
        let of_consumers = self.consumers.iter().flat_map(|consumer| &consumer.events);
        for event in self.events.iter().chain(of_consumers) {
            check_name("an event type", event.name)?;
            check_name("an aggregate type", event.aggregate)?;
            let first = registered.entry(event.name).or_insert_with(|| event.clone());
            if first.rust_type != event.rust_type {
                let Registration { name, rust_name: second, .. } = *event;
                return Err(BuildError::EventTwice { event: name, first: first.rust_name, second });
            }
        }
        Ok(registered)
    }

    fn check_consumers(&self) -> Result<(), BuildError> {
        for (index, consumer) in self.consumers.iter().enumerate() {
            check_name("a consumer", &consumer.name)?;
            if self.consumers.iter().take(index).any(|other| other.name == consumer.name) {
                return Err(BuildError::ConsumerTwice { name: consumer.name.clone() });
            }
            if consumer.name == DEAD_LETTERS {
                return Err(BuildError::ReservedConsumer {});
            }
            let limit = consumer.settings.attempt_timeout;
            if let Some(limit) = limit.filter(|limit| limit.is_zero() || *limit > MAX_TIMEOUT) {
                return Err(BuildError::InvalidTimeout { consumer: consumer.name.clone(), limit });
            }
            if let Some(Err(cause)) = consumer.settings.retry.clone().map(RetryPolicy::checked) {
                return Err(BuildError::InvalidRetry { consumer: consumer.name.clone(), cause });
            }
            let names: Vec<&str> = consumer.events.iter().map(|event| event.name).collect();
            let repeated = |(index, event): &(usize, &Registration)| names[..*index].contains(&event.name);
            if let Some((_, event)) = consumer.events.iter().enumerate().find(repeated) {
                let consumer = consumer.name.clone();
                return Err(BuildError::FunctionTwice { consumer, event: event.name });
            }
        }
        Ok(())
    }

    fn check_data(&self) -> Result<(), BuildError> {
        for consumer in &self.consumers {
            if let Some(data) = consumer.missing.iter().find_map(|missing| missing(&self.resources)) {
                return Err(BuildError::MissingData { consumer: consumer.name.clone(), data });
            }
        }
        Ok(())
    }
}

/// Refuses routing keys that would bring events into a queue where nobody applies them.
fn check_routing(
    service: &str,
    events: &BTreeMap<&'static str, Registration>,
    consumers: &[Consumer],
) -> Result<(), BuildError> {
    for event in events.values() {
        let Registration { name, routing_key, .. } = *event;
        let has_pattern = routing_key.split('.').any(|word| word == "*" || word == "#");
        if has_pattern || !is_short_text(routing_key, MAX_ROUTING_KEY) {
            return Err(BuildError::InvalidRoutingKey { event: name, routing_key });
        }
        if routing_key == dead_letter_key(service) {
            return Err(BuildError::DeadLetterKey { event: name, routing_key });
        }
    }
    for consumer in consumers {
        for applied in &consumer.events {
            let is_foreign =
                |other: &&Registration| consumer.events.iter().all(|event| event.name != other.name);
            let mut same_key = events.values().filter(|other| other.routing_key == applied.routing_key);
            if let Some(other) = same_key.find(is_foreign) {
                return Err(BuildError::SharedRoutingKey {
                    consumer: consumer.name.clone(),
                    routing_key: applied.routing_key,
                    applied: applied.name,
                    other: other.name,
                });
            }
        }
    }
    Ok(())
}

fn default_connections(consumers: usize) -> NonZeroU32 {
    let consumers = u32::try_from(consumers).unwrap_or(u32::MAX);
    NonZeroU32::MIN.saturating_add(consumers.saturating_add(2).min(7))
}

fn check_name(of: &'static str, name: &str) -> Result<(), BuildError> {
    if is_short_text(name, MAX_NAME) {
        Ok(())
    } else {
        Err(BuildError::InvalidName { of, name: name.to_owned() })
    }
}

/// Whether a text has 1 to `max` visible ASCII characters.
fn is_short_text(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
