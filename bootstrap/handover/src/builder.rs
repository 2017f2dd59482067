//! Builds an outbox, and refuses parts that do not fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use handover_events::{EventType, RetryPolicy};
use handover_outbox::Alert;
use handover_outbox::archive::{ArchiveStorage, RetentionPolicy};
use handover_outbox::ports::RandomSource;
use handover_outbox::state::ALERTS;
use handover_system::OsRandom;

use crate::backend::{Backend, Needs};
use crate::broker::{BrokerChoice, system};
use crate::clock::OutboxClock;
use crate::consumer::{Consumer, IntoConsumer, Shared};
use crate::data::Resources;
use crate::enqueue::Enqueuer;
use crate::error::BuildError;
use crate::layer::Layer;
use crate::origins::{check_origins, origins};
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
pub struct Builder<B: Backend> {
    source: B::Source,
    name: String,
    broker: Option<BrokerChoice>,
    resources: Resources,
    layers: Vec<Box<dyn Layer>>,
    events: Vec<Registration>,
    consumers: Vec<Consumer<B::Unit>>,
    roles: Vec<Role>,
    summary: bool,
    clock: OutboxClock,
    random: Option<Arc<dyn RandomSource>>,
    retention: Retention,
    alerts: Vec<Alert>,
}

impl<B: Backend> Builder<B> {
    pub(crate) fn new(source: B::Source) -> Builder<B> {
        Builder {
            source,
            name: "handover".to_owned(),
            broker: None,
            resources: Resources::default(),
            layers: Vec::new(),
            events: Vec::new(),
            consumers: Vec::new(),
            roles: vec![Role::Relay, Role::Consumers],
            summary: false,
            clock: OutboxClock::default(),
            random: None,
            retention: Retention::default(),
            alerts: ALERTS.to_vec(),
        }
    }

    pub(crate) fn map_source(self, change: impl FnOnce(B::Source) -> B::Source) -> Builder<B> {
        Builder { source: change(self.source), ..self }
    }

    /// Replaces clock and random source.
    #[cfg(feature = "store")]
    pub(crate) fn with_process(self, clock: OutboxClock, random: Arc<dyn RandomSource>) -> Builder<B> {
        Builder { clock, random: Some(random), ..self }
    }

    /// Sets the name of the service: the first part of the names of exchange and queues. The default is `handover`.
    /// Services that share a broker need different names. After a change, nobody reads what is left in the old queues.
    pub fn name(self, name: impl Into<String>) -> Builder<B> {
        Builder { name: name.into(), ..self }
    }

    /// Publishes through a broker: `RabbitMq`, or a broker of your own. Without this call, messages are rows of the same
    /// database.
    pub fn broker(self, broker: impl Into<BrokerChoice>) -> Builder<B> {
        Builder { broker: Some(broker.into()), ..self }
    }

    /// Gives a value to handlers, which take it as [`Data<T>`](crate::Data). A second value of the same type replaces the
    /// first.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Builder<B> {
        self.resources.insert(value);
        self
    }

    /// Adds code around every call of a handler. The first layer is the outermost.
    pub fn layer(mut self, layer: impl Layer) -> Builder<B> {
        self.layers.push(Box::new(layer));
        self
    }

    /// Declares an event type that this process enqueues and that has no consumer here. A queue of another process or program must
    /// be bound to its routing key before it is published: an event that no queue gets is `FAILED` after a few minutes, until an
    /// operator sends it again.
    pub fn event<E: EventType>(mut self) -> Builder<B> {
        self.events.push(Registration::of::<E>());
        self
    }

    /// Adds a consumer. Its name identifies the record of what it has applied, and MUST NOT change.
    pub fn consumer(mut self, name: impl Into<String>, functions: impl IntoConsumer<B>) -> Builder<B> {
        self.consumers.push(functions.into_consumer(name.into()));
        self
    }

    /// Logs a summary of the events every 10 seconds: one line for the relay and one for each consumer that had events. It is
    /// for a log whose filter disables the target `handover::event`, which has a line for every published and every
    /// applied event.
    pub fn log_summary(self) -> Builder<B> {
        Builder { summary: true, ..self }
    }

    /// Selects the roles of this process; the default is all. Without any, it only enqueues events.
    pub fn roles(self, roles: impl IntoIterator<Item = Role>) -> Builder<B> {
        Builder { roles: roles.into_iter().collect(), ..self }
    }

    /// Sets how long audit entries of operators' calls that only read are kept; the default is 30 days, the minimum 7. Entries of
    /// changes are never deleted. One of the processes with [`Role::Relay`] deletes them, once an hour.
    pub fn keep_audit_reads(mut self, time: Duration) -> Builder<B> {
        self.retention.audit_reads = time;
        self
    }

    /// Sets how long webhook deliveries that were delivered or cancelled are kept; the default is 30 days, the minimum a day. It
    /// concerns a service that sends webhooks with `handover-outbox`; `keep` of its `Webhooks` MUST be the same time.
    pub fn keep_webhook_deliveries(mut self, time: Duration) -> Builder<B> {
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
    pub fn archive(mut self, storage: Arc<dyn ArchiveStorage>, policy: RetentionPolicy) -> Builder<B> {
        self.retention.archive = Some((storage, policy));
        self
    }

    /// Replaces the alerts, or sets their limits; the default is [`ALERTS`]. One of the processes that call
    /// [`Running::state_metrics`](crate::Running::state_metrics) evaluates them. Give them to every process and command.
    ///
    /// ```
    /// use handover::{ALERTS, Alert, Builder, Limit};
    /// # use sqlx::Sqlite;
    ///
    /// fn with_alerts(builder: Builder<Sqlite>) -> Builder<Sqlite> {
    ///     builder.alerts(ALERTS.iter().map(|alert| match alert.name() {
    ///         "queue-depth" => Alert { limit: Limit::Above(20_000), ..*alert },
    ///         _ => *alert,
    ///     }))
    /// }
    /// ```
    pub fn alerts(self, alerts: impl IntoIterator<Item = Alert>) -> Builder<B> {
        Builder { alerts: alerts.into_iter().collect(), ..self }
    }

    /// Replaces the clock by one that the test advances. Give it to every outbox on the same database.
    #[cfg(feature = "test")]
    pub fn clock(self, clock: &crate::test::ManualClock) -> Builder<B> {
        Builder { clock: clock.clone().into(), ..self }
    }

    /// Checks everything that can be checked without a connection.
    pub fn build(mut self) -> Result<Outbox<B>, BuildError> {
        check_name("the service", &self.name)?;
        let events = self.registered_events()?;
        self.check_consumers()?;
        self.retention.check()?;
        check_routing(&self.name, &events, &self.consumers)?;
        check_origins(&self.name, self.broker.as_ref(), &self.events, &self.consumers)?;
        let received: Vec<&str> =
            self.consumers.iter().flat_map(Consumer::received).map(|event| event.name).collect();
        let events = events.into_iter().filter(|(name, _)| !received.contains(name)).collect();
        let origins = origins(&self.consumers);
        let selective = self.consumers.iter().filter(|consumer| consumer.is_selective);
        let selective: BTreeSet<String> = selective.map(|consumer| consumer.name.clone()).collect();
        let random = match self.random.take() {
            Some(random) => random,
            None => Arc::new(OsRandom::seeded()?),
        };
        let needs = Needs {
            clock: self.clock.clone(),
            random: Arc::clone(&random),
            #[cfg(feature = "sqlx")]
            consumers: self.consumers.len(),
            #[cfg(feature = "store")]
            has_broker: self.broker.is_some(),
        };
        let place = B::place(self.source, needs)?;
        let enqueuer = Enqueuer::<B>::new(events, origins, selective, place, self.clock, random);
        self.resources.insert(enqueuer.clone());
        check_data(&self.consumers, &self.resources)?;
        let shared = Shared {
            resources: Arc::new(self.resources),
            system: system(self.broker.as_ref()),
            exchange: exchange(&self.name).into(),
            layers: self.layers.into(),
        };
        let name = self.name;
        let queue = |consumer: &str| format!("{name}.{consumer}");
        let consumers = self.consumers.into_iter().map(|consumer| ConnectedConsumer {
            received: consumer.received().cloned().collect(),
            routing_keys: consumer.events.iter().map(|event| event.routing_key).collect(),
            subscriber: (consumer.connect)(queue(&consumer.name), shared.clone()),
            is_selective: consumer.is_selective,
            receives_from: consumer.receives_from,
        });
        let consumers = consumers.collect();
        let parts = Parts {
            name,
            broker: self.broker,
            consumers,
            roles: self.roles,
            summary: self.summary,
            retention: self.retention,
            alerts: self.alerts,
        };
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
}

/// Refuses functions that take a value that was not given.
fn check_data<U: ?Sized>(consumers: &[Consumer<U>], resources: &Resources) -> Result<(), BuildError> {
    for consumer in consumers {
        if let Some(data) = consumer.missing.iter().find_map(|missing| missing(resources)) {
            return Err(BuildError::MissingData { consumer: consumer.name.clone(), data });
        }
    }
    Ok(())
}

/// Refuses routing keys that would bring events into a queue where nobody applies them.
fn check_routing<U: ?Sized>(
    service: &str,
    events: &BTreeMap<&'static str, Registration>,
    consumers: &[Consumer<U>],
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
