//! Direct access to messages: in the tables of the database broker, or in the queues of RabbitMQ.

use std::num::NonZeroU16;
use std::sync::Arc;

use handover_outbox::ports::{Broker, Message, Outgoing, PublishOutcome};
use handover_outbox::topology::{QueueSpec, Topology};
use handover_rabbitmq::{QueueType, RabbitBroker};
use handover_tests::deployment::Deployment;
use handover_tests::rabbit_rigs::settings;
use handover_tests::servers::rabbitmq::TestVhost;
use handover_tests::snapshot::DatabaseSnapshot;

/// A test queue that receives every message. Functions that wait for events in flight ignore it.
pub(crate) const SPY: &str = "test.spy";

/// The broker of a deployment.
pub(crate) enum BrokerAccess {
    Tables(DatabaseSnapshot),
    RabbitMq(Arc<TestVhost>),
}

impl BrokerAccess {
    pub(crate) async fn of(deployment: &Deployment) -> BrokerAccess {
        match deployment.pair().is_on_rabbitmq() {
            true => BrokerAccess::RabbitMq(Arc::clone(deployment.vhost())),
            false => BrokerAccess::Tables(deployment.snapshot().await),
        }
    }

    /// Declares [`SPY`]. Call it before the program starts: the program reads the bindings at startup.
    pub(crate) async fn declare_spy(&self) {
        match self {
            BrokerAccess::Tables(snapshot) => {
                snapshot.change(&format!("INSERT INTO outbox_broker_queues (queue) VALUES ('{SPY}')")).await;
                let bind =
                    format!("INSERT INTO outbox_broker_bindings (queue, pattern) VALUES ('{SPY}', '#')");
                snapshot.change(&bind).await;
            }
            BrokerAccess::RabbitMq(vhost) => {
                let name = SPY.to_owned();
                let bindings = vec!["#".to_owned()];
                let declare_spy = QueueSpec {
                    name,
                    bindings,
                    ttl: None,
                    dead_letter_key: None,
                    is_selective: false,
                    receives_from: None,
                };
                let topology = Topology {
                    queues: vec![declare_spy],
                    ..marketplace::consumers::topology(marketplace::queues::DEFAULT_TIMEOUT)
                };
                broker(vhost).declare(&topology).await.unwrap();
            }
        }
    }

    /// Number of messages in a queue, including delivered messages that are not acknowledged.
    pub(crate) async fn count(&self, queue: &str) -> i64 {
        match self {
            BrokerAccess::Tables(snapshot) => {
                snapshot
                    .number(&format!("SELECT count(*) FROM outbox_broker_messages WHERE queue = '{queue}'"))
                    .await
            }
            BrokerAccess::RabbitMq(vhost) => {
                let queues = vhost.messages().await.unwrap();
                queues
                    .iter()
                    .find(|(name, _)| name == queue)
                    .map_or(0, |(_, count)| i64::try_from(*count).unwrap())
            }
        }
    }

    /// Returns the messages in a queue without removing them.
    pub(crate) async fn messages(&self, queue: &str) -> Vec<Message> {
        match self {
            BrokerAccess::Tables(snapshot) => {
                let sql = format!(
                    "SELECT message_id, kind, correlation_id, headers, body FROM outbox_broker_messages
                     WHERE queue = '{queue}' ORDER BY id"
                );
                snapshot.table(&sql).await.unwrap().into_iter().map(message).collect()
            }
            BrokerAccess::RabbitMq(vhost) => {
                let expected = usize::try_from(self.count(queue).await).unwrap();
                if expected == 0 {
                    return Vec::new();
                }
                let subscription = broker(vhost).subscribe(queue, NonZeroU16::MAX).await.unwrap();
                let mut messages = Vec::new();
                while messages.len() < expected {
                    let deliveries = subscription.next().await.unwrap();
                    messages.extend(deliveries.into_iter().map(|delivery| delivery.message));
                }
                subscription.close().await.unwrap();
                messages
            }
        }
    }

    /// Sends a message to a queue.
    pub(crate) async fn send(&self, queue: &str, message: &Message) {
        match self {
            BrokerAccess::Tables(snapshot) => {
                let headers = serde_json::to_string(&message.headers).unwrap();
                let text = |text: &Option<String>| text.clone().unwrap();
                let id = text(&message.message_id);
                let kind = text(&message.kind);
                let trace = text(&message.correlation_id);
                let body = &message.body;
                let sql = format!(
                    "INSERT INTO outbox_broker_messages (queue, message_id, kind, correlation_id, headers, body)
                     VALUES ('{queue}', '{id}', '{kind}', '{trace}', '{headers}', '{body}')"
                );
                assert_eq!(snapshot.change(&sql).await, 1);
            }
            BrokerAccess::RabbitMq(vhost) => {
                let event = message.message_id.clone().unwrap().try_into().unwrap();
                let outgoing = Outgoing::to_queue(event, queue.to_owned(), message.clone());
                let outcome = broker(vhost).publish(vec![outgoing]).await.unwrap().remove(0);
                assert!(matches!(outcome, PublishOutcome::Confirmed(_)), "{outcome:?}");
            }
        }
    }

    /// Message TTL of a queue in milliseconds.
    pub(crate) async fn ttl_ms(&self, queue: &str) -> i64 {
        match self {
            BrokerAccess::Tables(snapshot) => {
                snapshot
                    .number(&format!("SELECT ttl_ms FROM outbox_broker_queues WHERE queue = '{queue}'"))
                    .await
            }
            BrokerAccess::RabbitMq(vhost) => {
                vhost.argument(queue, "x-message-ttl").await.unwrap().parse().unwrap()
            }
        }
    }
}

/// A connection of the test to RabbitMQ, separate from the connections of the program.
fn broker(vhost: &TestVhost) -> RabbitBroker {
    RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum))
}

fn message(columns: Vec<Option<String>>) -> Message {
    let [message_id, kind, correlation_id, headers, body] = columns.try_into().unwrap();
    let headers = serde_json::from_str(&headers.unwrap()).unwrap();
    Message { message_id, kind, correlation_id, headers, body: body.unwrap() }
}
