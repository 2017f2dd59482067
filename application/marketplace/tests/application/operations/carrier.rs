//! A way to the broker on which something happens to publishes.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::Tasks;
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;

use crate::support::{pass, secs};

/// What happens to a publish.
#[derive(Clone)]
pub(crate) enum Fate {
    /// The connection is lost before it.
    Lost,
    /// The connection is lost after it.
    AnswerLost,
    /// The confirm comes a second later.
    Late,
    /// The process ends before it.
    KilledBefore(Tasks),
    /// The process ends after it.
    KilledAfter(Tasks),
}

/// The broker, behind a way that publishes may not survive.
pub(crate) struct Carrier {
    pub(crate) broker: MemoryBroker,
    pub(crate) next: Arc<Mutex<Option<Fate>>>,
}

#[async_trait]
impl Broker for Carrier {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.broker.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let fate = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lost = || Err(BrokerError::Unreachable("the connection was lost".into()));
        match fate {
            None => self.broker.publish(window).await,
            Some(Fate::Lost) => lost(),
            Some(Fate::AnswerLost) => {
                self.broker.publish(window).await?;
                lost()
            }
            Some(Fate::Late) => {
                let outcomes = self.broker.publish(window).await;
                pass(secs(1)).await;
                outcomes
            }
            Some(Fate::KilledBefore(tasks)) => {
                tasks.kill();
                std::future::pending().await
            }
            Some(Fate::KilledAfter(tasks)) => {
                self.broker.publish(window).await?;
                tasks.kill();
                std::future::pending().await
            }
        }
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.broker.subscribe(queue, prefetch).await
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.broker.queues().await
    }

    async fn blocked(&self) -> Option<String> {
        self.broker.blocked().await
    }
}
