//! RabbitMQ under faults: messages are returned or refused, connections are blocked, cut or closed, servers are killed,
//! and queues are deleted by an administrator.
//!
//! The tests start real servers. A test that affects a whole server starts its own; the others share one and use a
//! vhost each.

mod cluster;
mod encryption;
mod outages;
mod policies;
mod publishing;
mod topology;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use handover_contract::samples::outgoing;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Outgoing, PublishOutcome, Subscription,
};
use handover_outbox::topology::{QueueSpec, Topology};
use handover_rabbitmq::{QueueType, RabbitBroker};
use handover_tests::rabbit_rigs::{patient as settings, shared};
use handover_tests::servers::rabbitmq::{Encryption, RabbitServer, TestVhost};
use marketplace::queues::EXCHANGE;

const QUEUE: &str = "faults.queue";
const KEY: &str = "faults.key";
const NOWHERE: &str = "faults.nowhere";

/// Timeout for events on a busy machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

fn queue(name: &str, bindings: &[&str]) -> QueueSpec {
    let bindings = bindings.iter().map(|key| (*key).to_owned()).collect();
    QueueSpec {
        name: name.to_owned(),
        bindings,
        ttl: None,
        dead_letter_key: None,
        is_selective: false,
        receives_from: None,
    }
}

fn topology(queues: &[QueueSpec]) -> Topology {
    Topology {
        queues: queues.to_vec(),
        ..marketplace::consumers::topology(marketplace::queues::DEFAULT_TIMEOUT)
    }
}

async fn vhost() -> TestVhost {
    shared().await.vhost().await.expect("a vhost must be created")
}

/// A private server with a vhost.
async fn own_server() -> (Arc<RabbitServer>, TestVhost) {
    let server = RabbitServer::start(Encryption::None).await.expect("RabbitMQ must start");
    let vhost = server.vhost().await.expect("a vhost must be created");
    (server, vhost)
}

/// A broker at the given URL with [`QUEUE`] declared.
async fn declared(url: &str, queue_type: QueueType) -> RabbitBroker {
    let broker = RabbitBroker::new(settings(url, queue_type));
    broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.expect("the queue must be declared");
    broker
}

async fn publish(
    broker: &RabbitBroker,
    window: &[(String, &str)],
) -> Result<Vec<PublishOutcome>, BrokerError> {
    broker.publish(window.iter().map(|(id, key)| outgoing(id, key)).collect()).await
}

/// Ids of messages that are routed to [`QUEUE`].
fn routed(prefix: &str, count: usize) -> Vec<(String, &'static str)> {
    (0..count).map(|n| (format!("{prefix}-{n}"), KEY)).collect()
}

fn is_confirmed(outcome: &PublishOutcome) -> bool {
    matches!(outcome, PublishOutcome::Confirmed(_))
}

fn confirmed(outcomes: &[PublishOutcome]) -> BTreeSet<String> {
    outcomes
        .iter()
        .filter(|outcome| is_confirmed(outcome))
        .map(|outcome| outcome.event_id().to_string())
        .collect()
}

fn tags(deliveries: &[Delivery]) -> Vec<DeliveryTag> {
    deliveries.iter().map(|delivery| delivery.tag).collect()
}

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.message.message_id.clone().unwrap_or_default()).collect()
}

async fn subscribe(broker: &RabbitBroker, name: &str) -> Box<dyn Subscription> {
    eventually("a subscription", || async {
        broker.subscribe(name, 100.try_into().expect("a prefetch")).await.ok()
    })
    .await
}

/// Receives and acks messages until every id in `wanted` has arrived. Returns the ids of all received messages.
async fn drain(broker: &RabbitBroker, name: &str, wanted: &BTreeSet<String>) -> Vec<String> {
    let subscription = subscribe(broker, name).await;
    let mut received = Vec::new();
    while !wanted.iter().all(|id| received.contains(id)) {
        let next = tokio::time::timeout(NOTICED_WITHIN, subscription.next()).await;
        let Ok(deliveries) = next else {
            let missing: Vec<_> = wanted.iter().filter(|id| !received.contains(*id)).collect();
            panic!("{} messages are lost: {missing:?}", missing.len());
        };
        let deliveries = deliveries.expect("the subscription must be open");
        subscription.ack(&tags(&deliveries)).await.expect("deliveries are acked");
        received.extend(ids(&deliveries));
    }
    subscription.close().await.expect("the subscription must be closed without error");
    received
}

/// Polls until the closure returns a value, at most for [`NOTICED_WITHIN`].
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut poll: impl FnMut() -> F) -> T {
    let polling = async {
        loop {
            if let Some(received) = poll().await {
                return received;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(NOTICED_WITHIN, polling).await {
        Ok(received) => received,
        Err(_) => panic!("condition not met within {NOTICED_WITHIN:?}: {what}"),
    }
}

/// Publishes a window of messages repeatedly until one call gets a confirm for every message.
async fn publish_until_confirmed(broker: &RabbitBroker, window: &[(String, &str)]) {
    let begun = tokio::time::Instant::now();
    loop {
        let result = publish(broker, window).await;
        if result.as_ref().is_ok_and(|outcomes| outcomes.iter().all(is_confirmed)) {
            return;
        }
        assert!(
            begun.elapsed() < NOTICED_WITHIN,
            "the window was not confirmed within {NOTICED_WITHIN:?}: {result:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The cause of an outage. Panics for any other result.
fn unreachable<T: std::fmt::Debug>(result: Result<T, BrokerError>) -> String {
    match result {
        Err(BrokerError::Unreachable(cause)) => cause.to_string(),
        other => panic!("expected the broker to be unreachable, got {other:?}"),
    }
}

/// The text of a refusal. Panics for any other result.
fn refused<T: std::fmt::Debug>(result: Result<T, BrokerError>) -> String {
    match result {
        Err(BrokerError::Refused { what }) => what,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
