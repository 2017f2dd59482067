//! Checks of the broker: reachable, queues declared; for RabbitMQ also the management interface.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::{Broker, BrokerError};
use handover_rabbitmq::RabbitSettings;
use marketplace::queues;
use tokio::net::TcpStream;

use super::report::Check;
use marketplace_wiring::Failure;
use marketplace_wiring::adapters::{AttachedDatabase, database_broker, rabbit_for_command};
use marketplace_wiring::config::{BrokerChoice, Config};

const BROKER: &str = "broker";
const MANAGEMENT: &str = "management";
/// Default port of RabbitMQ's management plugin.
const MANAGEMENT_PORT: u16 = 15672;
/// A broker that does not answer within this time counts as unavailable.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the connection to the management plugin.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the broker. `database` is `None` if the database cannot be read.
pub(super) async fn checks(config: &Config, database: Option<&AttachedDatabase>) -> Vec<Check> {
    match (&config.broker, database) {
        (BrokerChoice::Memory, _) => vec![Check::warn(
            BROKER,
            "memory: the queues are in the memory of the serving process".to_owned(),
            "no other process can access them, and each start publishes unsettled events again",
            "set broker.url = \"database:\" for anything but tests",
        )],
        // The check of the database reports the problem.
        (BrokerChoice::Database, None) => Vec::new(),
        (BrokerChoice::Database, Some(database)) => {
            vec![queues(config, database_broker(&database.store), "the broker in the database").await]
        }
        (BrokerChoice::Rabbit(settings), _) => {
            let broker = rabbit_for_command(config, settings);
            let place = settings.address();
            vec![queues(config, broker, &place).await.failed_at(&place), management(settings).await]
        }
    }
}

async fn queues(config: &Config, broker: Arc<dyn Broker>, place: &str) -> Check {
    let answer = tokio::time::timeout(TIMEOUT, broker.queues()).await;
    let queues = match answer.unwrap_or_else(|late| Err(BrokerError::Unreachable(Box::new(late)))) {
        Ok(queues) => queues,
        Err(error) => return Check::failed(BROKER, &Failure::from(error)),
    };
    let topology = queues::topology(config.rules.pending_timeout);
    let is_available = |name: &str| queues.iter().any(|queue| queue.name == name);
    let missing: Vec<&str> =
        topology.queues.iter().map(|queue| queue.name.as_str()).filter(|name| !is_available(name)).collect();
    match missing.as_slice() {
        [] => Check::ok(BROKER, format!("{place} is reachable and has all {} queues", topology.queues.len())),
        _ if queues.is_empty() => {
            Check::ok(BROKER, format!("{place} is reachable; the first `serve` declares its queues"))
        }
        missing => Check::warn(
            BROKER,
            format!("{place} is reachable, but has no {}", missing.join(", ")),
            "a process of another version, or with another order.timeout.pending-minutes, declared the existing queues",
            "no action is needed if the next `handover serve` uses this configuration: it declares the missing queues",
        ),
    }
}

/// Checks the management plugin, which only people use; handover does not.
async fn management(settings: &RabbitSettings) -> Check {
    let address = (settings.host(), MANAGEMENT_PORT);
    let answer = tokio::time::timeout(PROBE_TIMEOUT, TcpStream::connect(address)).await;
    let place = format!("{}:{MANAGEMENT_PORT}", address.0);
    match answer {
        Ok(Ok(_)) => Check::ok(MANAGEMENT, format!("{place} accepts connections")),
        Ok(Err(_)) | Err(_) => Check::warn(
            MANAGEMENT,
            format!("{place} does not accept connections"),
            "handover does not need the management plugin, but people can see queues and connections with it",
            "no action is needed; to enable the plugin: rabbitmq-plugins enable rabbitmq_management",
        ),
    }
}
