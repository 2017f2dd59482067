//! The queues on RabbitMQ: those that were there stay, those that were made go.

use handover_application::topology::Topology;
use handover_bare::BareQueue;

use crate::Failure;
use crate::bench::stop::{failed, refuse};

/// What was missing before the bench.
pub(super) struct Queues {
    missing: Vec<String>,
    exchange: Option<String>,
}

impl Queues {
    /// Refuses queues that somebody uses.
    pub(super) async fn free(queue: &BareQueue, topology: &Topology) -> Result<Queues, Failure> {
        let mut missing = Vec::new();
        for spec in &topology.queues {
            match queue.counts(&spec.name).await.map_err(failed("RabbitMQ does not count a queue"))? {
                None => missing.push(spec.name.clone()),
                Some((0, 0)) => {}
                Some((messages, consumers)) => {
                    let what = format!(
                        "the queue {} has {messages} messages and {consumers} consumers, and bench empties queues",
                        spec.name
                    );
                    let remedy =
                        "make a vhost for it (rabbitmqctl add_vhost bench) and name that with --broker";
                    return Err(refuse(&what, remedy));
                }
            }
        }
        let there = queue.has_exchange(&topology.exchange).await;
        let exchange = match there.map_err(failed("RabbitMQ does not tell of an exchange"))? {
            true => None,
            false => Some(topology.exchange.clone()),
        };
        Ok(Queues { missing, exchange })
    }

    /// Deletes what was missing.
    pub(super) async fn delete(self, queue: BareQueue) -> Result<(), Failure> {
        let deleting = async {
            for name in &self.missing {
                queue.delete_queue(name).await?;
            }
            if let Some(exchange) = &self.exchange {
                queue.delete_exchange(exchange).await?;
            }
            queue.close().await
        };
        deleting.await.map_err(failed("the queues of the bench are still there"))
    }
}
