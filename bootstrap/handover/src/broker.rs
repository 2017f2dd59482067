//! The broker through which events travel from the relay to the consumers.

use std::sync::Arc;

use handover_outbox::ports::Broker;
#[cfg(feature = "cli")]
use handover_outbox::topology::Topology;
use handover_sql::{DatabaseBroker, SqlStore};

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
}

/// The broker of an outbox.
#[derive(Clone, Default)]
pub(crate) enum BrokerChoice {
    /// Tables of the same database.
    #[default]
    Database,
    #[cfg(feature = "rabbitmq")]
    Rabbit(Box<RabbitMq>),
}

impl BrokerChoice {
    /// MUST be called within a Tokio runtime. Connects to nothing.
    #[cfg_attr(
        not(feature = "rabbitmq"),
        allow(unused_variables, reason = "tables of the database have no connection")
    )]
    pub(crate) fn open(&self, store: &SqlStore, name: &str) -> Arc<dyn Broker> {
        match self {
            BrokerChoice::Database => Arc::new(DatabaseBroker::new(store)),
            #[cfg(feature = "rabbitmq")]
            BrokerChoice::Rabbit(broker) => {
                let mut settings = broker.0.clone();
                settings.connection_name = name.to_owned();
                Arc::new(handover_rabbitmq::RabbitBroker::new(settings))
            }
        }
    }

    /// The broker of a command, which declares nothing. MUST be called within a Tokio runtime. Connects to nothing.
    #[cfg(feature = "cli")]
    #[cfg_attr(
        not(feature = "rabbitmq"),
        allow(unused_variables, reason = "tables of the database need no topology")
    )]
    pub(crate) fn open_for_command(&self, store: &SqlStore, topology: &Topology) -> Arc<dyn Broker> {
        match self {
            BrokerChoice::Database => Arc::new(DatabaseBroker::new(store)),
            #[cfg(feature = "rabbitmq")]
            BrokerChoice::Rabbit(broker) => {
                let mut settings = broker.0.clone();
                settings.connection_name = "handover command".to_owned();
                Arc::new(handover_rabbitmq::RabbitBroker::new(settings).expecting(topology))
            }
        }
    }

    /// The messaging system, as the semantic conventions of OpenTelemetry name it.
    pub(crate) fn system(&self) -> &'static str {
        match self {
            BrokerChoice::Database => "handover",
            #[cfg(feature = "rabbitmq")]
            BrokerChoice::Rabbit(_) => "rabbitmq",
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            BrokerChoice::Database => "tables of the database",
            #[cfg(feature = "rabbitmq")]
            BrokerChoice::Rabbit(_) => "RabbitMQ",
        }
    }
}
