//! A broker with injected publish faults.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::Tasks;
use handover_outbox::ports::*;
use handover_outbox::wrap::BrokerWrapper;

use crate::support::{pass, secs};

/// Fault of one publish.
#[derive(Clone)]
pub(crate) enum PublishFault {
    /// The connection is lost before the publish.
    Lost,
    /// The connection is lost after the publish, before the confirm.
    ReplyLost,
    /// The confirm is returned one second late.
    Late,
    /// The process is killed before the publish.
    KilledBefore(Tasks),
    /// The process is killed after the publish.
    KilledAfter(Tasks),
}

/// The in-memory broker; the next publish has the fault in `next`.
pub(crate) struct FaultyBroker {
    pub(crate) broker: MemoryBroker,
    pub(crate) next: Arc<Mutex<Option<PublishFault>>>,
}

#[async_trait]
impl BrokerWrapper for FaultyBroker {
    fn inner(&self) -> &dyn Broker {
        &self.broker
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let fault = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lost = || Err(BrokerError::Unreachable("the connection was lost".into()));
        match fault {
            None => self.inner().publish(window).await,
            Some(PublishFault::Lost) => lost(),
            Some(PublishFault::ReplyLost) => {
                self.inner().publish(window).await?;
                lost()
            }
            Some(PublishFault::Late) => {
                let outcomes = self.inner().publish(window).await;
                pass(secs(1)).await;
                outcomes
            }
            Some(PublishFault::KilledBefore(tasks)) => {
                tasks.kill();
                std::future::pending().await
            }
            Some(PublishFault::KilledAfter(tasks)) => {
                self.inner().publish(window).await?;
                tasks.kill();
                std::future::pending().await
            }
        }
    }
}
