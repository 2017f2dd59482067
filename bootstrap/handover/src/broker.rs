//! The broker through which events travel from the relay to the consumers.

use std::sync::Arc;

use handover_outbox::ports::Broker;
#[cfg(feature = "cli")]
use handover_outbox::topology::Topology;

/// RabbitMQ 3.10 or later.
///
/// ```
/// use handover::RabbitMq;
///
/// let broker = RabbitMq::new("amqp://clinic:secret@rabbitmq:5672/clinic")?; // for `Builder::broker`
/// # drop(broker);
/// # Ok::<(), handover::BuildError>(())
/// ```
#[cfg(feature = "rabbitmq")]
#[derive(Clone)]
pub struct RabbitMq(handover_rabbitmq::RabbitSettings);

#[cfg(feature = "rabbitmq")]
impl RabbitMq {
    /// Parses `amqp://user:password@host:port/vhost` or `amqps://..`; the nodes of a cluster are separated by commas.
    /// Connects to nothing.
    pub fn new(url: &str) -> Result<RabbitMq, crate::error::BuildError> {
        let settings = handover_rabbitmq::RabbitSettings::parse(url);
        settings
            .map(RabbitMq)
            .map_err(|cause| crate::error::BuildError::InvalidUrl { why: cause.to_string() })
    }

    /// The settings with a name for the connections.
    fn named(&self, name: &str) -> handover_rabbitmq::RabbitSettings {
        let mut settings = self.0.clone();
        settings.connection_name = name.to_owned();
        settings
    }
}

/// A broker for [`Builder::broker`](crate::Builder::broker): `RabbitMq`, or an implementation of the port in an [`Arc`].
#[derive(Clone)]
pub struct BrokerChoice(Choice);

#[derive(Clone)]
enum Choice {
    #[cfg(feature = "rabbitmq")]
    Rabbit(Box<RabbitMq>),
    Own(Arc<dyn Broker>),
}

#[cfg(feature = "rabbitmq")]
impl From<RabbitMq> for BrokerChoice {
    fn from(broker: RabbitMq) -> BrokerChoice {
        BrokerChoice(Choice::Rabbit(Box::new(broker)))
    }
}

impl<T: Broker + 'static> From<Arc<T>> for BrokerChoice {
    fn from(broker: Arc<T>) -> BrokerChoice {
        BrokerChoice(Choice::Own(broker))
    }
}

impl From<Arc<dyn Broker>> for BrokerChoice {
    fn from(broker: Arc<dyn Broker>) -> BrokerChoice {
        BrokerChoice(Choice::Own(broker))
    }
}

impl BrokerChoice {
    /// MUST be called within a Tokio runtime. Connects to nothing.
    #[cfg_attr(not(feature = "rabbitmq"), allow(unused_variables, reason = "only RabbitMQ shows names"))]
    pub(crate) fn open(&self, name: &str) -> Arc<dyn Broker> {
        match &self.0 {
            #[cfg(feature = "rabbitmq")]
            Choice::Rabbit(broker) => Arc::new(handover_rabbitmq::RabbitBroker::new(broker.named(name))),
            Choice::Own(broker) => Arc::clone(broker),
        }
    }

    /// The broker of a command, which declares nothing. MUST be called within a Tokio runtime. Connects to nothing.
    #[cfg(feature = "cli")]
    #[cfg_attr(
        not(feature = "rabbitmq"),
        allow(unused_variables, reason = "only RabbitMQ needs to know the topology")
    )]
    pub(crate) fn open_for_command(&self, topology: &Topology) -> Arc<dyn Broker> {
        match &self.0 {
            #[cfg(feature = "rabbitmq")]
            Choice::Rabbit(broker) => {
                let broker = handover_rabbitmq::RabbitBroker::new(broker.named("handover command"));
                Arc::new(broker.expecting(topology))
            }
            Choice::Own(broker) => Arc::clone(broker),
        }
    }
}

/// The messaging system, as the semantic conventions of OpenTelemetry name it. Without a broker, messages are rows of the
/// database.
pub(crate) fn system(broker: Option<&BrokerChoice>) -> &'static str {
    match broker {
        #[cfg(feature = "rabbitmq")]
        Some(BrokerChoice(Choice::Rabbit(_))) => "rabbitmq",
        Some(BrokerChoice(Choice::Own(_))) | None => "handover",
    }
}

/// The broker, as the report names it.
pub(crate) fn name(broker: Option<&BrokerChoice>) -> &'static str {
    match broker {
        #[cfg(feature = "rabbitmq")]
        Some(BrokerChoice(Choice::Rabbit(_))) => "RabbitMQ",
        Some(BrokerChoice(Choice::Own(_))) => "of the application",
        None => "tables of the database",
    }
}
