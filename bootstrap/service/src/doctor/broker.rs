//! The broker: whether it answers, has its queues, and takes messages; for RabbitMQ also whether people can look at it.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::{Broker, BrokerError};
use handover_rabbitmq::RabbitSettings;
use marketplace::queues;
use tokio::net::TcpStream;

use super::report::Check;
use marketplace_wiring::Failure;
use marketplace_wiring::adapters::{Looked, database_broker, rabbit_beside};
use marketplace_wiring::config::{BrokerChoice, Config};

const BROKER: &str = "broker";
const MANAGEMENT: &str = "management";
/// Where RabbitMQ's management plugin listens, unless it is told otherwise.
const MANAGEMENT_PORT: u16 = 15672;
/// A broker that does not answer within this is away.
const WITHIN: Duration = Duration::from_secs(10);
/// Who does not answer within this does not answer.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// Looks at it; `looked` is the database if it can be read.
pub(super) async fn checks(config: &Config, looked: Option<&Looked>) -> Vec<Check> {
    match (&config.broker, looked) {
        (BrokerChoice::Memory, _) => vec![Check::warn(
            BROKER,
            "memory: keeps its queues in the process that serves".to_owned(),
            "nobody else sees them, and each start sends again what was on its way",
            "set broker.url = \"database:\" for anything but tests",
        )],
        // It is in the database, which says what is wrong.
        (BrokerChoice::Database, None) => Vec::new(),
        (BrokerChoice::Database, Some(looked)) => {
            vec![queues(config, database_broker(&looked.store), "it").await]
        }
        (BrokerChoice::Rabbit(settings), _) => {
            let broker = rabbit_beside(config, settings);
            let place = settings.place();
            vec![queues(config, broker, &place).await.failed_at(&place), management(settings).await]
        }
    }
}

async fn queues(config: &Config, broker: Arc<dyn Broker>, place: &str) -> Check {
    let answer = tokio::time::timeout(WITHIN, broker.queues()).await;
    let queues = match answer.unwrap_or_else(|late| Err(BrokerError::Unreachable(Box::new(late)))) {
        Ok(queues) => queues,
        Err(error) => return Check::failed(BROKER, &Failure::from(error)),
    };
    let topology = queues::topology(config.rules.pending_timeout);
    let is_there = |name: &str| queues.iter().any(|queue| queue.name == name);
    let missing: Vec<&str> =
        topology.queues.iter().map(|queue| queue.name.as_str()).filter(|name| !is_there(name)).collect();
    match missing.as_slice() {
        [] => Check::ok(BROKER, format!("{place} answers, and has all {} queues", topology.queues.len())),
        _ if queues.is_empty() => {
            Check::ok(BROKER, format!("{place} answers; `serve` declares its queues at the first start"))
        }
        missing => Check::warn(
            BROKER,
            format!("{place} answers, and has no {}", missing.join(", ")),
            "they came with another version or with another order.timeout.pending-minutes",
            "nothing, if the next `handover serve` is to use this configuration: it declares them",
        ),
    }
}

/// Nothing here needs the management plugin; people do.
async fn management(settings: &RabbitSettings) -> Check {
    let address = (settings.host(), MANAGEMENT_PORT);
    let answer = tokio::time::timeout(PROBE_WITHIN, TcpStream::connect(address)).await;
    let place = format!("{}:{MANAGEMENT_PORT}", address.0);
    match answer {
        Ok(Ok(_)) => Check::ok(MANAGEMENT, format!("{place} answers")),
        Ok(Err(_)) | Err(_) => Check::warn(
            MANAGEMENT,
            format!("{place} does not answer"),
            "handover does not need it; people look at queues and connections there",
            "nothing, or enable it: rabbitmq-plugins enable rabbitmq_management",
        ),
    }
}
