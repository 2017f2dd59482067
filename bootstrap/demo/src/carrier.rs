//! The real broker, and what befalls messages on their way: doubled, spoiled, out of reach.
//!
//! **Invariant:** nothing is only pretended: a copy is a message more in the real queue, a spoiled message lies there
//! in place of the good one, and a lost connection returns what it held.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth, Requeue,
    Subscription,
};
use handover_outbox::topology::Topology;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::mishaps::{Fate, Line, Mishaps};

/// The broker with these mishaps on the way to it.
pub(super) fn carried(broker: Arc<dyn Broker>, mishaps: Mishaps) -> Arc<dyn Broker> {
    Arc::new(Carrier { broker, mishaps })
}

struct Carrier {
    broker: Arc<dyn Broker>,
    mishaps: Mishaps,
}

#[async_trait]
impl Broker for Carrier {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.mishaps.line()?;
        self.broker.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let line = self.mishaps.line()?;
        let outcomes = self.broker.publish(window).await?;
        // Lost on the way back: the messages are there, and nobody knows.
        self.mishaps.holds(line)?;
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        let line = self.mishaps.line()?;
        let inner = self.broker.subscribe(queue, prefetch).await?;
        Ok(Box::new(Carried {
            inner,
            broker: Arc::clone(&self.broker),
            queue: queue.to_owned(),
            mishaps: self.mishaps.clone(),
            line,
            held: Mutex::default(),
        }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.mishaps.line()?;
        self.broker.queues().await
    }

    async fn blocked(&self) -> Option<String> {
        self.broker.blocked().await
    }
}

/// A subscription over that connection.
struct Carried {
    inner: Box<dyn Subscription>,
    broker: Arc<dyn Broker>,
    queue: String,
    mishaps: Mishaps,
    line: Line,
    /// The events of what was delivered.
    held: Mutex<BTreeMap<DeliveryTag, EventId>>,
}

impl Carried {
    /// The connection is lost: what the broker had delivered over it goes back into the queue.
    async fn closed(&self) -> BrokerError {
        // Fails only where the database does, and then the session's heartbeat ends it.
        let _ = self.inner.close().await;
        BrokerError::Closed { queue: self.queue.clone() }
    }

    /// Puts a message with that body into the queue in place of a good one.
    async fn spoil(&self, delivery: &Delivery, event: &EventId, body: String) -> Result<(), BrokerError> {
        if !self.enqueue(event, Message { body, ..delivery.message.clone() }).await {
            // The good one comes again, and then it is tried again.
            return Err(self.closed().await);
        }
        self.mishaps.spoiled();
        self.inner.ack(&[delivery.tag]).await
    }

    /// Puts a message into this queue alone; tells whether it is there.
    async fn enqueue(&self, event: &EventId, message: Message) -> bool {
        let outgoing = Outgoing::to_queue(event.clone(), self.queue.clone(), message);
        let outcomes = self.broker.publish(vec![outgoing]).await.unwrap_or_default();
        matches!(outcomes.as_slice(), [PublishOutcome::Confirmed(_)])
    }

    /// What becomes of one delivery on its way; `None`: it is not delivered.
    async fn carry(&self, delivery: Delivery) -> Result<Option<Delivery>, BrokerError> {
        let event = delivery.message.message_id.as_ref().and_then(|id| id.parse::<EventId>().ok());
        // A copy of a dead letter would not say where it died: those come once.
        let Some(event) = event.filter(|_| self.queue != DEAD_LETTER_QUEUE) else {
            return Ok(Some(delivery));
        };
        match self.mishaps.fate(&self.queue, &event, &delivery.message.body) {
            Fate::Arrive => {}
            Fate::ComeTwice => {
                if self.enqueue(&event, delivery.message.clone()).await {
                    self.mishaps.doubled(&self.queue, &event);
                }
            }
            Fate::BeSpoiled(body) => {
                self.spoil(&delivery, &event, body).await?;
                return Ok(None);
            }
            Fate::BeLost => {
                self.inner.ack(&[delivery.tag]).await?;
                return Ok(None);
            }
        }
        self.mishaps.handed(&self.queue, &event, &delivery.message.body);
        self.held().insert(delivery.tag, event);
        Ok(Some(delivery))
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<DeliveryTag, EventId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Subscription for Carried {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        loop {
            let deliveries = tokio::select! {
                biased;
                () = self.mishaps.lost(self.line) => return Err(self.closed().await),
                next = self.inner.next() => next?,
            };
            let mut carried = Vec::with_capacity(deliveries.len());
            for delivery in deliveries {
                carried.extend(self.carry(delivery).await?);
            }
            if !carried.is_empty() {
                return Ok(carried);
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.mishaps.holds(self.line)?;
        let acked: Vec<EventId> = {
            let mut held = self.held();
            tags.iter().filter_map(|tag| held.remove(tag)).collect()
        };
        // Counted first: an ack whose answer nobody waits for is one all the same.
        self.mishaps.acked(&self.queue, &acked);
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.mishaps.holds(self.line)?;
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
