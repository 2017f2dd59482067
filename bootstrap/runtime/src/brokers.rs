//! Brokers by URL: for the serving process and for commands.

use std::sync::Arc;

use handover_memory::MemoryBroker;
use handover_outbox::Outbox;
use handover_outbox::ports::Broker;
use handover_outbox::topology::Topology;
use handover_rabbitmq::{ManagementError, RabbitBroker, RabbitSettings, limiting_policies};
use handover_sql::{DatabaseBroker, SqlStore};
use tracing::{debug, info, warn};

use crate::failure::Failure;
use crate::settings::BrokerChoice;
use crate::stores::Database;

/// Broker for the process that serves this database.
pub async fn for_service(choice: &BrokerChoice, database: &Database) -> Result<Arc<dyn Broker>, Failure> {
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

/// Broker for a command that runs outside the serving process, with the topology of the service. It declares no queues.
pub fn for_command(
    choice: &BrokerChoice,
    store: &SqlStore,
    topology: &Topology,
) -> Result<Arc<dyn Broker>, Failure> {
    match choice {
        BrokerChoice::Database => Ok(Arc::new(DatabaseBroker::new(store))),
        BrokerChoice::Memory => Err(Failure::BrokerInMemory {}),
        BrokerChoice::Rabbit(settings) => Ok(rabbit_for_command(settings, topology)),
    }
}

/// Logs the policies of RabbitMQ that limit the queues, in the background: the management API is optional, and a policy
/// prevents no start. Call it after the queues are declared.
pub fn report_policies(choice: &BrokerChoice, outbox: &Outbox) {
    let BrokerChoice::Rabbit(settings) = choice else { return };
    let settings = settings.as_ref().clone();
    let topology = Arc::clone(outbox.topology());
    let stopping = outbox.stopping().clone();
    let report = async move {
        let policies = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            policies = limiting_policies(&settings, &topology) => policies,
        };
        match policies {
            Ok(policies) => {
                for limit in policies {
                    let queues = limit.queues.join(", ");
                    warn!(
                        policy = limit.policy,
                        setting = limit.setting,
                        value = limit.value,
                        queues,
                        effect = limit.effect,
                        "[RabbitMQ] [ALERT] a policy limits the queues of this service; exclude them from its pattern"
                    );
                }
            }
            Err(error) if settings.has_management_url() => {
                warn!(%error, "[RabbitMQ] cannot read the policies of the queues; check rabbitmq.management-url");
            }
            Err(error @ ManagementError::Unreachable { .. }) => {
                debug!(%error, "[RabbitMQ] policies of the queues not checked");
            }
            Err(error @ (ManagementError::Denied { .. } | ManagementError::Unusable { .. })) => {
                info!(%error, "[RabbitMQ] policies of the queues not checked");
            }
        }
    };
    drop(outbox.spawn(report));
}

/// RabbitMQ for a command. It declares no queues.
pub(crate) fn rabbit_for_command(settings: &RabbitSettings, topology: &Topology) -> Arc<dyn Broker> {
    let mut settings = settings.clone();
    settings.connection_name = "handover command".to_owned();
    Arc::new(RabbitBroker::new(settings).expecting(topology))
}
