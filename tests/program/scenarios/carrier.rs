//! Messages behind the program's back: in the tables of the database broker, or in the queues of RabbitMQ.

use std::num::NonZeroU16;
use std::sync::Arc;

use handover_outbox::ports::{Broker, Message, Outgoing, PublishOutcome};
use handover_outbox::topology::{QueueSpec, Topology};
use handover_rabbitmq::{QueueType, RabbitBroker};
use handover_tests::books::Books;
use handover_tests::deployment::Deployment;
use handover_tests::rabbit_rigs::settings;
use handover_tests::servers::rabbitmq::TestVhost;

/// A queue of the test's own that gets whatever is routed; nobody waits until it is empty.
pub(crate) const SPY: &str = "test.spy";

/// What carries messages.
pub(crate) enum Carrier {
    Tables(Books),
    RabbitMq(Arc<TestVhost>),
}

impl Carrier {
    pub(crate) async fn of(deployment: &Deployment) -> Carrier {
        match deployment.pair().is_on_rabbitmq() {
            true => Carrier::RabbitMq(Arc::clone(deployment.vhost())),
            false => Carrier::Tables(deployment.books().await),
        }
    }

    /// Makes [`SPY`]. To be called before the program starts, which reads the bindings then.
    pub(crate) async fn spy(&self) {
        match self {
            Carrier::Tables(books) => {
                books.change(&format!("INSERT INTO outbox_broker_queues (queue) VALUES ('{SPY}')")).await;
                let bind =
                    format!("INSERT INTO outbox_broker_bindings (queue, pattern) VALUES ('{SPY}', '#')");
                books.change(&bind).await;
            }
            Carrier::RabbitMq(vhost) => {
                let (name, bindings) = (SPY.to_owned(), vec!["#".to_owned()]);
                let spy = QueueSpec { name, bindings, ttl: None, dead_letter_key: None };
                let topology = Topology {
                    queues: vec![spy],
                    ..marketplace::queues::topology(marketplace::queues::DEFAULT_TIMEOUT)
                };
                broker(vhost).declare(&topology).await.unwrap();
            }
        }
    }

    /// How many messages a queue holds, those included that were delivered and not settled.
    pub(crate) async fn count(&self, queue: &str) -> i64 {
        match self {
            Carrier::Tables(books) => {
                books
                    .number(&format!("SELECT count(*) FROM outbox_broker_messages WHERE queue = '{queue}'"))
                    .await
            }
            Carrier::RabbitMq(vhost) => {
                let queues = vhost.messages().await.unwrap();
                queues
                    .iter()
                    .find(|(name, _)| name == queue)
                    .map_or(0, |(_, count)| i64::try_from(*count).unwrap())
            }
        }
    }

    /// The messages that a queue holds; they stay there.
    pub(crate) async fn held(&self, queue: &str) -> Vec<Message> {
        match self {
            Carrier::Tables(books) => {
                let sql = format!(
                    "SELECT message_id, kind, correlation_id, headers, body FROM outbox_broker_messages
                     WHERE queue = '{queue}' ORDER BY id"
                );
                books.table(&sql).await.unwrap().into_iter().map(message).collect()
            }
            Carrier::RabbitMq(vhost) => {
                let expected = usize::try_from(self.count(queue).await).unwrap();
                if expected == 0 {
                    return Vec::new();
                }
                let subscription = broker(vhost).subscribe(queue, NonZeroU16::MAX).await.unwrap();
                let mut held = Vec::new();
                while held.len() < expected {
                    let deliveries = subscription.next().await.unwrap();
                    held.extend(deliveries.into_iter().map(|delivery| delivery.message));
                }
                subscription.close().await.unwrap();
                held
            }
        }
    }

    /// Puts a message into a queue.
    pub(crate) async fn send(&self, queue: &str, message: &Message) {
        match self {
            Carrier::Tables(books) => {
                let headers = serde_json::to_string(&message.headers).unwrap();
                let text = |text: &Option<String>| text.clone().unwrap();
                let (id, kind) = (text(&message.message_id), text(&message.kind));
                let (trace, body) = (text(&message.correlation_id), &message.body);
                let sql = format!(
                    "INSERT INTO outbox_broker_messages (queue, message_id, kind, correlation_id, headers, body)
                     VALUES ('{queue}', '{id}', '{kind}', '{trace}', '{headers}', '{body}')"
                );
                assert_eq!(books.change(&sql).await, 1);
            }
            Carrier::RabbitMq(vhost) => {
                let event = message.message_id.clone().unwrap().try_into().unwrap();
                let outgoing = Outgoing::to_queue(event, queue.to_owned(), message.clone());
                let outcome = broker(vhost).publish(vec![outgoing]).await.unwrap().remove(0);
                assert!(matches!(outcome, PublishOutcome::Confirmed(_)), "{outcome:?}");
            }
        }
    }

    /// How long messages wait in a queue until they expire, in milliseconds.
    pub(crate) async fn ttl_ms(&self, queue: &str) -> i64 {
        match self {
            Carrier::Tables(books) => {
                books
                    .number(&format!("SELECT ttl_ms FROM outbox_broker_queues WHERE queue = '{queue}'"))
                    .await
            }
            Carrier::RabbitMq(vhost) => {
                vhost.argument(queue, "x-message-ttl").await.unwrap().parse().unwrap()
            }
        }
    }
}

/// A connection of the test's own.
fn broker(vhost: &TestVhost) -> RabbitBroker {
    RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum))
}

fn message(columns: Vec<Option<String>>) -> Message {
    let [message_id, kind, correlation_id, headers, body] = columns.try_into().unwrap();
    let headers = serde_json::from_str(&headers.unwrap()).unwrap();
    Message { message_id, kind, correlation_id, headers, body: body.unwrap() }
}
