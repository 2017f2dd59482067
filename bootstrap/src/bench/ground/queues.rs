//! The queues on RabbitMQ: those that were there stay, empty as they were; those that were made go.

use handover_application::topology::Topology;
use handover_bare::BareQueue;

use crate::Failure;
use crate::bench::stop::{failed, refuse};

/// What was there before the bench, and what was not.
pub(super) struct Queues {
    there: Vec<String>,
    missing: Vec<String>,
    missing_exchange: Option<String>,
}

impl Queues {
    /// Refuses queues that somebody uses.
    pub(super) async fn free(queue: &BareQueue, topology: &Topology) -> Result<Queues, Failure> {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for spec in &topology.queues {
            match queue.counts(&spec.name).await.map_err(failed("RabbitMQ does not count a queue"))? {
                None => missing.push(spec.name.clone()),
                Some((0, 0)) => there.push(spec.name.clone()),
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
        let exchange = queue.has_exchange(&topology.exchange).await;
        let missing_exchange = match exchange.map_err(failed("RabbitMQ does not tell of an exchange"))? {
            true => None,
            false => Some(topology.exchange.clone()),
        };
        Ok(Queues { there, missing, missing_exchange })
    }

    /// Leaves them as they were.
    pub(super) async fn leave(self, queue: BareQueue) -> Result<(), Failure> {
        let leaving = async {
            for name in &self.there {
                queue.purge(name).await?;
            }
            for name in &self.missing {
                queue.delete_queue(name).await?;
            }
            if let Some(exchange) = &self.missing_exchange {
                queue.delete_exchange(exchange).await?;
            }
            queue.close().await
        };
        leaving.await.map_err(failed("the queues of the bench are still there"))
    }
}
