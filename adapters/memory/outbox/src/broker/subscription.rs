//! A consumer's end of a queue.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::turn::yield_now;
use async_trait::async_trait;
use handover_outbox::ports::{BrokerError, Delivery, DeliveryTag, Requeue, Subscription};
use tokio::sync::futures::OwnedNotified;

use super::Shared;
use super::state::Settlement;

/// A subscription. Dropping it is closing it.
pub(super) struct MemorySubscription {
    shared: Arc<Shared>,
    id: u64,
    queue: String,
}

/// What a look at the queue found.
enum Found {
    Deliveries(Vec<Delivery>),
    /// Nothing. Look again when this rings, or after this long.
    Nothing(OwnedNotified, Option<Duration>),
}

impl MemorySubscription {
    pub(super) fn new(shared: Arc<Shared>, id: u64, queue: String) -> MemorySubscription {
        MemorySubscription { shared, id, queue }
    }

    fn closed(&self) -> BrokerError {
        BrokerError::Closed { queue: self.queue.clone() }
    }

    fn look(&self) -> Result<Found, BrokerError> {
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        state.check_reachable()?;
        state.expire(now);
        let deliveries = state.deliver(self.id).ok_or_else(|| self.closed())?;
        if !deliveries.is_empty() {
            return Ok(Found::Deliveries(deliveries));
        }
        let bell = state.bell(self.id).ok_or_else(|| self.closed())?;
        let until = state.next_expiry_for(&self.queue);
        let wait = until.map(|until| (until - now).to_std().unwrap_or(Duration::ZERO));
        // Made before the state is let go: no ring can be missed.
        Ok(Found::Nothing(bell.notified_owned(), wait))
    }

    async fn settle(&self, tags: &[DeliveryTag], settlement: Settlement) -> Result<(), BrokerError> {
        yield_now().await;
        {
            let now = self.shared.clock.now();
            let mut state = self.shared.state();
            state.check_reachable()?;
            if !state.settle(self.id, tags, settlement, now) {
                return Err(self.closed());
            }
        }
        // From here on it is settled, also if nobody waits for the answer.
        yield_now().await;
        Ok(())
    }
}

#[async_trait]
impl Subscription for MemorySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        yield_now().await;
        loop {
            // Nothing is awaited between taking deliveries and returning them: a dropped call holds none.
            let (bell, wait) = match self.look()? {
                Found::Deliveries(deliveries) => return Ok(deliveries),
                Found::Nothing(bell, wait) => (bell, wait),
            };
            let expiry = async {
                match wait {
                    Some(wait) => self.shared.clock.sleep(wait).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = bell => {}
                () = expiry => {}
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.settle(tags, Settlement::Done).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.settle(tags, Settlement::Nack(requeue)).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        yield_now().await;
        let mut state = self.shared.state();
        state.check_reachable()?;
        state.unsubscribe(self.id);
        Ok(())
    }
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        self.shared.state().unsubscribe(self.id);
    }
}
