//! Broker adapters: for the serving process and for commands.

use std::num::NonZeroU16;
use std::sync::Arc;

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::ports::{Broker, BrokerError, Outgoing, PublishOutcome, QueueDepth, Subscription};
use handover_outbox::topology::Topology;
use handover_rabbitmq::{RabbitBroker, RabbitSettings};
use handover_sql::DatabaseBroker;
use marketplace::queues;
use marketplace_sql::SqlMarket;

use super::Database;
use crate::Failure;
use crate::config::{BrokerChoice, Config};

/// Broker for the process that serves this database.
pub(super) async fn for_service(
    choice: &BrokerChoice,
    database: &Database,
) -> Result<Arc<dyn Broker>, Failure> {
    Ok(match choice {
        BrokerChoice::Database => {
            let broker = DatabaseBroker::new(database.store());
            if database.choice().file().is_some() {
                // The lock of the file proves that the owner of every session has ended. On a server, sessions may
                // belong to other processes that still run.
                broker.end_all_sessions().await?;
            }
            Arc::new(broker)
        }
        BrokerChoice::Memory => Arc::new(MemoryBroker::new(Arc::clone(database.clock()))),
        BrokerChoice::Rabbit(settings) => Arc::new(RabbitBroker::new(settings.as_ref().clone())),
    })
}

/// Broker for a command that runs outside the serving process. It declares no queues.
pub(super) fn for_command(config: &Config, store: &SqlMarket) -> Result<Arc<dyn Broker>, Failure> {
    match &config.broker {
        BrokerChoice::Database => Ok(database_broker(store)),
        BrokerChoice::Memory => Err(Failure::BrokerInMemory),
        BrokerChoice::Rabbit(settings) => Ok(rabbit_for_command(config, settings)),
    }
}

/// The broker in the tables of this database.
pub fn database_broker(store: &SqlMarket) -> Arc<dyn Broker> {
    Arc::new(DatabaseBroker::new(store))
}

/// RabbitMQ for a command. It declares no queues.
pub fn rabbit_for_command(config: &Config, settings: &RabbitSettings) -> Arc<dyn Broker> {
    let mut settings = settings.clone();
    settings.connection_name = "handover command".to_owned();
    let topology = queues::topology(config.rules.pending_timeout);
    Arc::new(CommandBroker { broker: RabbitBroker::new(settings), topology })
}

/// RabbitMQ with the expected topology, so that queue depths can be read without declaring the queues.
struct CommandBroker {
    broker: RabbitBroker,
    topology: Topology,
}

#[async_trait]
impl Broker for CommandBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.broker.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.broker.publish(window).await
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.broker.subscribe(queue, prefetch).await
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.broker.depths(&self.topology).await
    }

    async fn blocked(&self) -> Option<String> {
        self.broker.blocked().await
    }
}
