//! RabbitMQ under faults: what is returned, refused, blocked, cut, killed or deleted behind our back.
//!
//! Servers are real and private. What concerns a whole server has one of its own; the rest shares one, a vhost each.

mod cluster;
mod encryption;
mod outages;
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

/// How long something that has to happen may take on a machine that does other things too.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

fn queue(name: &str, bindings: &[&str]) -> QueueSpec {
    let bindings = bindings.iter().map(|key| (*key).to_owned()).collect();
    QueueSpec { name: name.to_owned(), bindings, ttl: None, dead_letter_key: None }
}

fn topology(queues: &[QueueSpec]) -> Topology {
    Topology {
        queues: queues.to_vec(),
        ..marketplace::queues::topology(marketplace::queues::DEFAULT_TIMEOUT)
    }
}

/// A vhost on the shared server.
async fn vhost() -> TestVhost {
    shared().await.vhost().await.expect("a vhost is made")
}

/// A server of the test's own, and a vhost on it.
async fn own_server() -> (Arc<RabbitServer>, TestVhost) {
    let server = RabbitServer::start(Encryption::None).await.expect("RabbitMQ starts");
    let vhost = server.vhost().await.expect("a vhost is made");
    (server, vhost)
}

/// A broker by this URL with [`QUEUE`] declared.
async fn declared(url: &str, queue_type: QueueType) -> RabbitBroker {
    let broker = RabbitBroker::new(settings(url, queue_type));
    broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.expect("the queue is declared");
    broker
}

async fn publish(
    broker: &RabbitBroker,
    window: &[(String, &str)],
) -> Result<Vec<PublishOutcome>, BrokerError> {
    broker.publish(window.iter().map(|(id, key)| outgoing(id, key)).collect()).await
}

/// Ids of messages that all go to [`QUEUE`].
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

/// Takes and acks what a queue holds until all of these were there; tells what came.
async fn drain(broker: &RabbitBroker, name: &str, wanted: &BTreeSet<String>) -> Vec<String> {
    let subscription = subscribe(broker, name).await;
    let mut seen = Vec::new();
    while !wanted.iter().all(|id| seen.contains(id)) {
        let next = tokio::time::timeout(NOTICED_WITHIN, subscription.next()).await;
        let Ok(deliveries) = next else {
            let missing: Vec<_> = wanted.iter().filter(|id| !seen.contains(*id)).collect();
            panic!("{} messages are lost: {missing:?}", missing.len());
        };
        let deliveries = deliveries.expect("the subscription lives");
        subscription.ack(&tags(&deliveries)).await.expect("deliveries are acked");
        seen.extend(ids(&deliveries));
    }
    subscription.close().await.expect("a subscription can be closed");
    seen
}

/// Looks again and again until there is something to see, at most for [`NOTICED_WITHIN`].
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(NOTICED_WITHIN, looking).await {
        Ok(seen) => seen,
        Err(_) => panic!("{what}: not within {NOTICED_WITHIN:?}"),
    }
}

/// Publishes a window until it is confirmed.
async fn publish_until_confirmed(broker: &RabbitBroker, window: &[(String, &str)]) {
    let begun = tokio::time::Instant::now();
    loop {
        let answer = publish(broker, window).await;
        if answer.as_ref().is_ok_and(|outcomes| outcomes.iter().all(is_confirmed)) {
            return;
        }
        assert!(begun.elapsed() < NOTICED_WITHIN, "not confirmed within {NOTICED_WITHIN:?}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The text of an outage; anything else is a failure of the test.
fn unreachable<T: std::fmt::Debug>(answer: Result<T, BrokerError>) -> String {
    match answer {
        Err(BrokerError::Unreachable(cause)) => cause.to_string(),
        other => panic!("expected the broker to be away, got {other:?}"),
    }
}

/// The text of a refusal; anything else is a failure of the test.
fn refused<T: std::fmt::Debug>(answer: Result<T, BrokerError>) -> String {
    match answer {
        Err(BrokerError::Refused { what }) => what,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
