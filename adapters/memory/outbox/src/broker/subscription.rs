//! Subscription of a consumer to a queue.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::yield_now::yield_now;
use async_trait::async_trait;
use handover_outbox::ports::{BrokerError, Delivery, DeliveryTag, Requeue, Subscription};
use tokio::sync::futures::OwnedNotified;

use super::shared::Shared;
use super::state::Settlement;

/// A subscription. Dropping it closes it.
pub(super) struct MemorySubscription {
    shared: Arc<Shared>,
    id: u64,
    queue: String,
}

enum Polled {
    Deliveries(Vec<Delivery>),
    /// No message is ready. Poll again after the notification or after the duration.
    Empty(OwnedNotified, Option<Duration>),
}

impl MemorySubscription {
    pub(super) fn new(shared: Arc<Shared>, id: u64, queue: String) -> MemorySubscription {
        MemorySubscription { shared, id, queue }
    }

    fn closed(&self) -> BrokerError {
        BrokerError::Closed { queue: self.queue.clone() }
    }

    fn poll(&self) -> Result<Polled, BrokerError> {
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        state.check_reachable()?;
        state.expire(now);
        let deliveries = state.deliver(self.id).ok_or_else(|| self.closed())?;
        if !deliveries.is_empty() {
            return Ok(Polled::Deliveries(deliveries));
        }
        let changed = state.changed(self.id).ok_or_else(|| self.closed())?;
        let until = state.next_expiry_for(&self.queue);
        let wait = until.map(|until| (until - now).to_std().unwrap_or(Duration::ZERO));
        // The future is created while the state is locked, so that no notification is missed.
        Ok(Polled::Empty(changed.notified_owned(), wait))
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
        // The deliveries are already settled: a cancellation of the caller at this await does not undo that.
        yield_now().await;
        Ok(())
    }
}

#[async_trait]
impl Subscription for MemorySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        yield_now().await;
        loop {
            // There is no await between taking deliveries and returning them, so a cancelled call loses none.
            let (changed, wait) = match self.poll()? {
                Polled::Deliveries(deliveries) => return Ok(deliveries),
                Polled::Empty(changed, wait) => (changed, wait),
            };
            let expiry = async {
                match wait {
                    Some(wait) => self.shared.clock.sleep(wait).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = expiry => {}
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.settle(tags, Settlement::Ack).await
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
