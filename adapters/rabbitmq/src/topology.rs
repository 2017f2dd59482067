//! Exchange, queues and bindings on the server.

use std::time::Duration;

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::{QueueSpec, Topology};
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};

use crate::fault::{Fault, Kind, answered};
use crate::link::Link;
use crate::message::short;
use crate::refusal;
use crate::settings::{QueueType, RabbitSettings};
use crate::version::Version;

/// A queue as the server counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) ready: u64,
    pub(crate) consumers: u64,
}

/// Declares everything on a channel of its own, which a refusal closes. What exists as it should stays as it is.
pub(crate) async fn declare(
    link: &Link,
    topology: &Topology,
    settings: &RabbitSettings,
) -> Result<Vec<Counted>, BrokerError> {
    let version = link.version().await.map_err(Fault::refused_or_away)?;
    let channel = link.channel().await.map_err(Fault::refused_or_away)?;
    let declaring = Declaring { channel: &channel, limit: settings.answer_timeout };
    declaring.exchange(&topology.exchange).await?;
    let mut counted = Vec::with_capacity(topology.queues.len());
    for spec in &topology.queues {
        let arguments = arguments(spec, &topology.exchange, settings.queue_type, version);
        counted.push(
            declaring.queue(&spec.name, QueueDeclareOptions::durable(), arguments).await.map_err(refused)?,
        );
        for pattern in &spec.bindings {
            declaring.bind(&spec.name, &topology.exchange, pattern).await?;
        }
    }
    Ok(counted)
}

/// Counts queues without changing anything; one that does not exist is left out.
pub(crate) async fn count(
    link: &Link,
    queues: &[String],
    settings: &RabbitSettings,
) -> Result<Vec<Counted>, BrokerError> {
    let mut channel = link.channel().await.map_err(Fault::refused_or_away)?;
    let mut counted = Vec::with_capacity(queues.len());
    for name in queues {
        let declaring = Declaring { channel: &channel, limit: settings.answer_timeout };
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        match declaring.queue(name, options, FieldTable::default()).await {
            Ok(queue) => counted.push(queue),
            Err(fault) if fault.kind() == Kind::Missing => {
                channel = link.channel().await.map_err(Fault::refused_or_away)?;
            }
            Err(fault) => return Err(fault.refused_or_away()),
        }
    }
    Ok(counted)
}

struct Declaring<'a> {
    channel: &'a Channel,
    limit: Duration,
}

impl Declaring<'_> {
    async fn exchange(&self, name: &str) -> Result<(), BrokerError> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declare =
            self.channel.exchange_declare(named(name)?, ExchangeKind::Topic, options, FieldTable::default());
        answered("declaring an exchange", self.limit, declare).await.map_err(refused)
    }

    async fn queue(
        &self,
        name: &str,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> Result<Counted, Fault> {
        let name = named(name).map_err(|error| Fault::Broken(error.to_string()))?;
        let declare = self.channel.queue_declare(name, options, arguments);
        let queue = answered("declaring a queue", self.limit, declare).await?;
        Ok(Counted {
            name: queue.name().to_string(),
            ready: queue.message_count().into(),
            consumers: queue.consumer_count().into(),
        })
    }

    async fn bind(&self, queue: &str, exchange: &str, pattern: &str) -> Result<(), BrokerError> {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        let bind =
            self.channel.queue_bind(named(queue)?, named(exchange)?, named(pattern)?, options, arguments);
        answered("binding a queue", self.limit, bind).await.map_err(Fault::refused_or_away)
    }
}

fn named(name: &str) -> Result<ShortString, BrokerError> {
    short("a name", name).map_err(|what| BrokerError::Refused { what })
}

fn refused(fault: Fault) -> BrokerError {
    match (fault.kind(), fault.reply()) {
        (Kind::Unfit, Some(reply)) => {
            BrokerError::Refused { what: refusal::explain(reply.get_message().as_str()) }
        }
        (Kind::Unfit | Kind::Away | Kind::Denied | Kind::Missing, _) => fault.refused_or_away(),
    }
}

/// What makes a queue what its specification says. Without `reject-publish`, RabbitMQ silently goes back to
/// dead-lettering at most once.
fn arguments(spec: &QueueSpec, exchange: &str, queue_type: QueueType, version: Version) -> FieldTable {
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
    if queue_type == QueueType::Quorum && version.limits_deliveries() {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(-1));
    }
    arguments
}
