//! Wraps the real broker and injects faults: duplicated messages, one corrupted message, an outage.
//!
//! **Invariant:** faults act on the real queues: a copy is one more message in the queue, a corrupted message replaces
//! the original one in the queue, and a lost connection requeues its unsettled deliveries.

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

use super::broker_faults::{BrokerFaults, Connection, DeliveryAction};

pub(super) fn with_faults(broker: Arc<dyn Broker>, faults: BrokerFaults) -> Arc<dyn Broker> {
    Arc::new(FaultyBroker { broker, faults })
}

struct FaultyBroker {
    broker: Arc<dyn Broker>,
    faults: BrokerFaults,
}

#[async_trait]
impl Broker for FaultyBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.faults.connect()?;
        self.broker.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let connection = self.faults.connect()?;
        let outcomes = self.broker.publish(window).await?;
        // An outage that began during the publish loses the confirms: the broker has the messages, but the relay gets
        // no confirm.
        self.faults.check(connection)?;
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        let connection = self.faults.connect()?;
        let inner = self.broker.subscribe(queue, prefetch).await?;
        Ok(Box::new(FaultySubscription {
            inner,
            broker: Arc::clone(&self.broker),
            queue: queue.to_owned(),
            faults: self.faults.clone(),
            connection,
            unsettled: Mutex::default(),
        }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.faults.connect()?;
        self.broker.queues().await
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.faults.connect()?;
        self.broker.has_messages(queue).await
    }

    async fn blocked(&self) -> Option<String> {
        self.broker.blocked().await
    }
}

/// A subscription on one connection.
struct FaultySubscription {
    inner: Box<dyn Subscription>,
    broker: Arc<dyn Broker>,
    queue: String,
    faults: BrokerFaults,
    connection: Connection,
    /// Deliveries that the consumer has not acknowledged, with their events.
    unsettled: Mutex<BTreeMap<DeliveryTag, EventId>>,
}

impl FaultySubscription {
    /// Closes the subscription of a lost connection: the broker requeues its unsettled deliveries.
    async fn close_lost(&self) -> BrokerError {
        // The error can be ignored: `close` fails only if the database fails, and the broker session then ends when its
        // heartbeat expires.
        let _ = self.inner.close().await;
        BrokerError::Closed { queue: self.queue.clone() }
    }

    /// Replaces a delivery with a message that has this body.
    async fn corrupt(&self, delivery: &Delivery, event: &EventId, body: String) -> Result<(), BrokerError> {
        if !self.enqueue(event, Message { body, ..delivery.message.clone() }).await {
            // The broker did not confirm the corrupted message. It redelivers the original message, which is corrupted
            // then.
            return Err(self.close_lost().await);
        }
        self.faults.record_corruption();
        self.inner.ack(&[delivery.tag]).await
    }

    /// Publishes a message to this queue only; returns whether the broker confirmed it.
    async fn enqueue(&self, event: &EventId, message: Message) -> bool {
        let outgoing = Outgoing::to_queue(event.clone(), self.queue.clone(), message);
        let outcomes = self.broker.publish(vec![outgoing]).await.unwrap_or_default();
        matches!(outcomes.as_slice(), [PublishOutcome::Confirmed(_)])
    }

    /// Applies the planned fault to a delivery; returns `None` if it must not reach the consumer.
    async fn apply_fault(&self, delivery: Delivery) -> Result<Option<Delivery>, BrokerError> {
        let event = delivery.message.message_id.as_ref().and_then(|id| id.parse::<EventId>().ok());
        // Dead letters are not duplicated: a copy would lack the name of the queue in which the original was
        // dead-lettered.
        let Some(event) = event.filter(|_| self.queue != DEAD_LETTER_QUEUE) else {
            return Ok(Some(delivery));
        };
        match self.faults.next_action(&self.queue, &event, &delivery.message.body) {
            DeliveryAction::Deliver => {}
            DeliveryAction::Duplicate => {
                if self.enqueue(&event, delivery.message.clone()).await {
                    self.faults.record_duplicate(&self.queue, &event);
                }
            }
            DeliveryAction::Corrupt(body) => {
                self.corrupt(&delivery, &event, body).await?;
                return Ok(None);
            }
            DeliveryAction::Drop => {
                self.inner.ack(&[delivery.tag]).await?;
                return Ok(None);
            }
        }
        self.faults.record_delivery(&self.queue, &event, &delivery.message.body);
        self.unsettled().insert(delivery.tag, event);
        Ok(Some(delivery))
    }

    fn unsettled(&self) -> MutexGuard<'_, BTreeMap<DeliveryTag, EventId>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Subscription for FaultySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        loop {
            let deliveries = tokio::select! {
                biased;
                () = self.faults.wait_until_lost(self.connection) => return Err(self.close_lost().await),
                next = self.inner.next() => next?,
            };
            let mut delivered = Vec::with_capacity(deliveries.len());
            for delivery in deliveries {
                delivered.extend(self.apply_fault(delivery).await?);
            }
            if !delivered.is_empty() {
                return Ok(delivered);
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.faults.check(self.connection)?;
        let acked: Vec<EventId> = {
            let mut unsettled = self.unsettled();
            tags.iter().filter_map(|tag| unsettled.remove(tag)).collect()
        };
        // The acks are counted before the call: if the caller is cancelled during the call, they may still take effect.
        self.faults.record_acks(&self.queue, &acked);
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.faults.check(self.connection)?;
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
