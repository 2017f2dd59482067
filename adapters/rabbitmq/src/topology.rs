//! Declares exchange, queues and bindings on the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::{QueueSpec, Topology, topic_matches};
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use tracing::warn;

use crate::error::{ErrorClass, RabbitError, with_timeout};
use crate::link::Link;
use crate::message::short;
use crate::refusal;
use crate::settings::{QueueType, RabbitSettings};
use crate::version::Version;

/// Counts of a queue as reported by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) name: String,
    pub(crate) ready: u64,
    pub(crate) consumers: u64,
}

/// Result of a declaration.
pub(crate) struct Declared {
    pub(crate) queues: Vec<QueueCounts>,
    /// Exchanges of other services from which queues receive, and which do not exist yet.
    pub(crate) missing_exchanges: BTreeSet<String>,
}

/// Argument `x-delivery-limit` of a queue; `None` for a queue without it, -1 for no limit.
type DeliveryLimit = Option<i64>;

/// Limits of existing queues that differ from the limit of a new queue, by queue. The argument of a queue does not change when the
/// server is upgraded to a version for which this adapter requests another one.
#[derive(Debug, Default)]
pub(crate) struct ExistingLimits(BTreeMap<String, DeliveryLimit>);

impl ExistingLimits {
    /// Forgets queues that were deleted: they are declared with the limit of a new queue.
    pub(crate) fn retain(&mut self, existing: &BTreeSet<String>) {
        self.0.retain(|queue, _| existing.contains(queue));
    }

    fn insert(&mut self, queue: &str, limit: DeliveryLimit, version: Version) {
        self.0.insert(queue.to_owned(), limit);
        let is_limited = match limit {
            Some(limit) => limit >= 0,
            None => version.limits_deliveries(),
        };
        if is_limited {
            let limit = limit.map_or_else(|| "default of RabbitMQ 4".to_owned(), |limit| limit.to_string());
            warn!(
                code = "rabbitmq.delivery-limit",
                queue,
                limit,
                "[RabbitMQ] [ALERT] the existing queue has a delivery limit: a message that is delivered more often is removed, also \
                if only its process ended. Solution: let consumers drain the queue, delete it (rabbitmqctl delete_queue) and restart"
            );
        }
    }
}

/// Declares the topology on a separate channel, because a rejected declaration closes the channel. Existing objects
/// with the same arguments stay unchanged.
pub(crate) async fn declare(
    link: &Link,
    topology: &Topology,
    settings: &RabbitSettings,
    existing: &mut ExistingLimits,
) -> Result<Declared, BrokerError> {
    let version = link.version().await.map_err(RabbitError::into_refused_or_unreachable)?;
    let mut channel = link.channel().await.map_err(RabbitError::into_refused_or_unreachable)?;
    let limit = settings.reply_timeout;
    Declaration { channel: &channel, limit }.exchange(&topology.exchange).await?;
    let mut counted = Vec::with_capacity(topology.queues.len());
    for spec in &topology.queues {
        let own_limit =
            (settings.queue_type == QueueType::Quorum && version.limits_deliveries()).then_some(-1);
        let requested = |existing: &ExistingLimits| {
            let delivery_limit = existing.0.get(&spec.name).copied().unwrap_or(own_limit);
            arguments(spec, &topology.exchange, settings.queue_type, delivery_limit)
        };
        let options = QueueDeclareOptions::durable();
        let mut declared =
            Declaration { channel: &channel, limit }.queue(&spec.name, options, requested(existing)).await;
        let refusal = declared.as_ref().err().and_then(RabbitError::reply);
        let other_limit =
            refusal.and_then(|reply| refusal::existing_delivery_limit(reply.get_message().as_str()));
        if let Some(other_limit) = other_limit {
            existing.insert(&spec.name, other_limit, version);
            channel = link.channel().await.map_err(RabbitError::into_refused_or_unreachable)?;
            declared = Declaration { channel: &channel, limit }
                .queue(&spec.name, options, requested(existing))
                .await;
        }
        counted.push(declared.map_err(declaration_error)?);
        let declaration = Declaration { channel: &channel, limit };
        if spec.is_selective {
            declaration.bind(&spec.name, &topology.exchange, &own_key(&spec.name)).await?;
        }
        for pattern in &spec.bindings {
            if spec.is_selective && !topology.has_older_relays {
                declaration.unbind(&spec.name, &topology.exchange, pattern).await?;
            } else {
                declaration.bind(&spec.name, &topology.exchange, pattern).await?;
            }
        }
    }
    Ok(Declared { queues: counted, missing_exchanges: receive(link, topology, settings).await? })
}

/// Binds queues to the exchanges of other services; returns the exchanges that do not exist. They are not declared here:
/// their service may declare them with other arguments, and would then be refused.
async fn receive(
    link: &Link,
    topology: &Topology,
    settings: &RabbitSettings,
) -> Result<BTreeSet<String>, BrokerError> {
    let mut missing = BTreeSet::new();
    for spec in &topology.queues {
        let Some(exchange) = spec.receives_from.as_ref().filter(|name| !missing.contains(*name)) else {
            continue;
        };
        // A missing exchange closes the channel.
        let channel = link.channel().await.map_err(RabbitError::into_refused_or_unreachable)?;
        let declaration = Declaration { channel: &channel, limit: settings.reply_timeout };
        for pattern in &spec.bindings {
            match declaration.try_bind(&spec.name, exchange, pattern).await? {
                Err(error) if error.class() == ErrorClass::NotFound => {
                    missing.insert(exchange.clone());
                    break;
                }
                Err(error) if error.class() == ErrorClass::Denied => {
                    let what = format!(
                        "the queue {} cannot receive from the exchange {exchange} of another service: {error}. Solution: \
                         give the user read permission on this exchange (rabbitmqctl set_permissions)",
                        spec.name
                    );
                    return Err(BrokerError::Refused { what });
                }
                result => result.map_err(RabbitError::into_refused_or_unreachable)?,
            }
        }
    }
    Ok(missing)
}

/// Routing key by which a message enters a selective queue and no other. The server cannot exclude a queue from the bindings
/// that match a message, so a selective queue is bound by this key alone, and a message names it in the header `CC`.
fn own_key(queue: &str) -> String {
    format!("to.{queue}")
}

/// How the server has to route a message with this routing key.
pub(crate) struct Recipients {
    /// Values of the header `CC`: the keys of the selective queues that get the message.
    pub(crate) keys: Vec<String>,
    /// Whether the server returns the message if no queue gets it.
    pub(crate) is_mandatory: bool,
}

/// The recipients of a message for the exchange of this topology.
pub(crate) fn recipients(topology: &Topology, key: &str, excluded: &BTreeSet<String>) -> Recipients {
    let matches = |spec: &&QueueSpec| spec.bindings.iter().any(|pattern| topic_matches(pattern, key));
    let selective = topology.queues.iter().filter(|spec| spec.is_selective).filter(matches);
    let (unneeded, needed): (Vec<&QueueSpec>, Vec<&QueueSpec>) =
        selective.partition(|spec| excluded.contains(&spec.name));
    Recipients {
        keys: needed.iter().map(|spec| own_key(&spec.name)).collect(),
        is_mandatory: unneeded.is_empty()
            || !needed.is_empty()
            || topology.queues.iter().filter(|spec| !spec.is_selective).any(|spec| matches(&spec)),
    }
}

/// Counts queues without changing anything. Missing queues are omitted.
pub(crate) async fn count(
    link: &Link,
    queues: &[String],
    settings: &RabbitSettings,
) -> Result<Vec<QueueCounts>, BrokerError> {
    let mut channel = link.channel().await.map_err(RabbitError::into_refused_or_unreachable)?;
    count_on(link, &mut channel, queues, settings).await
}

/// The same on a channel that the caller keeps. A missing queue closes the channel, which is then replaced.
pub(crate) async fn count_on(
    link: &Link,
    channel: &mut Channel,
    queues: &[String],
    settings: &RabbitSettings,
) -> Result<Vec<QueueCounts>, BrokerError> {
    let mut counted = Vec::with_capacity(queues.len());
    for name in queues {
        let declaration = Declaration { channel, limit: settings.reply_timeout };
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        match declaration.queue(name, options, FieldTable::default()).await {
            Ok(queue) => counted.push(queue),
            Err(error) if error.class() == ErrorClass::NotFound => {
                *channel = link.channel().await.map_err(RabbitError::into_refused_or_unreachable)?;
            }
            Err(error) => return Err(error.into_refused_or_unreachable()),
        }
    }
    Ok(counted)
}

struct Declaration<'a> {
    channel: &'a Channel,
    limit: Duration,
}

impl Declaration<'_> {
    async fn exchange(&self, name: &str) -> Result<(), BrokerError> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declare = self.channel.exchange_declare(
            short_name(name)?,
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        with_timeout("declaring an exchange", self.limit, declare).await.map_err(declaration_error)
    }

    async fn queue(
        &self,
        name: &str,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> Result<QueueCounts, RabbitError> {
        let name = short_name(name).map_err(|error| RabbitError::Other(error.to_string()))?;
        let declare = self.channel.queue_declare(name, options, arguments);
        let queue = with_timeout("declaring a queue", self.limit, declare).await?;
        Ok(QueueCounts {
            name: queue.name().to_string(),
            ready: queue.message_count().into(),
            consumers: queue.consumer_count().into(),
        })
    }

    async fn bind(&self, queue: &str, exchange: &str, pattern: &str) -> Result<(), BrokerError> {
        self.try_bind(queue, exchange, pattern).await?.map_err(RabbitError::into_refused_or_unreachable)
    }

    /// The error of the server is the inner result.
    async fn try_bind(
        &self,
        queue: &str,
        exchange: &str,
        pattern: &str,
    ) -> Result<Result<(), RabbitError>, BrokerError> {
        let options = QueueBindOptions::default();
        let arguments = FieldTable::default();
        let bind = self.channel.queue_bind(
            short_name(queue)?,
            short_name(exchange)?,
            short_name(pattern)?,
            options,
            arguments,
        );
        Ok(with_timeout("binding a queue", self.limit, bind).await)
    }

    /// Removes a binding, which need not exist.
    async fn unbind(&self, queue: &str, exchange: &str, pattern: &str) -> Result<(), BrokerError> {
        let unbind = self.channel.queue_unbind(
            short_name(queue)?,
            short_name(exchange)?,
            short_name(pattern)?,
            FieldTable::default(),
        );
        with_timeout("removing a binding", self.limit, unbind)
            .await
            .map_err(RabbitError::into_refused_or_unreachable)
    }
}

fn short_name(name: &str) -> Result<ShortString, BrokerError> {
    short("the name", name).map_err(|what| BrokerError::Refused { what })
}

fn declaration_error(error: RabbitError) -> BrokerError {
    match (error.class(), error.reply()) {
        (ErrorClass::Invalid, Some(reply)) => {
            BrokerError::Refused { what: refusal::explain(reply.get_message().as_str()) }
        }
        (ErrorClass::Invalid | ErrorClass::Unreachable | ErrorClass::Denied | ErrorClass::NotFound, _) => {
            error.into_refused_or_unreachable()
        }
    }
}

/// Arguments of a queue according to its specification. Without `reject-publish`, RabbitMQ silently falls back to
/// dead-lettering at most once.
fn arguments(
    spec: &QueueSpec,
    exchange: &str,
    queue_type: QueueType,
    delivery_limit: DeliveryLimit,
) -> FieldTable {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text(queue_type.as_str()));
    if let Some(ttl) = spec.ttl {
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(ttl_ms));
    }
    if let Some(key) = &spec.dead_letter_key {
        arguments.insert("x-dead-letter-exchange".into(), text(exchange));
        arguments.insert("x-dead-letter-routing-key".into(), text(key));
        if queue_type == QueueType::Quorum {
            arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
            arguments.insert("x-overflow".into(), text("reject-publish"));
        }
    }
    if spec.receives_from.is_some() {
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    }
    if let Some(limit) = delivery_limit {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit));
    }
    arguments
}
