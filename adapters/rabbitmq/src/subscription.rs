//! A consumer on its own channel.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use handover_outbox::ports::{BrokerError, Delivery, DeliveryTag, Requeue, Subscription};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::delivery_buffer::{DeliveryBuffer, Ended, Frames};
use crate::error::{ErrorClass, RabbitError, with_timeout};
use crate::message::{delivery_of, short};
use crate::shared::Shared;

/// A subscription to a queue. Closing its channel makes RabbitMQ return the unsettled messages to the queue.
pub(crate) struct RabbitSubscription {
    buffer: Arc<DeliveryBuffer>,
    channel: Channel,
    limit: Duration,
    /// Acks MUST be sent in the order in which tags were removed from the buffer; otherwise an ack for several tags
    /// would settle too many deliveries.
    settling: Mutex<()>,
    /// Holds the consumer. `None` once the subscription is dropped.
    receiver: Option<AbortOnDropHandle<()>>,
}

impl RabbitSubscription {
    #[allow(clippy::disallowed_methods, reason = "the task ends with the subscription")]
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<RabbitSubscription, BrokerError> {
        let name = short("the queue", queue).map_err(|what| BrokerError::Refused { what })?;
        let limit = shared.settings.reply_timeout;
        let opening = async {
            let channel = shared.consuming.link().await?.channel().await?;
            let mut opening = Opening { channel: channel.clone(), limit, is_subscribed: false };
            let consumer = opening.consume(name, prefetch).await?;
            Ok::<_, RabbitError>((channel, consumer))
        };
        let (channel, consumer) = opening.await.map_err(|error| {
            if error.class() == ErrorClass::NotFound {
                shared.recheck.notify_one();
            }
            error.into_refused_or_unreachable()
        })?;
        let buffer = shared.new_buffer(queue);
        let receiver = tokio::spawn(receive(consumer, Arc::clone(&buffer), Arc::clone(shared)));
        Ok(RabbitSubscription {
            buffer,
            channel,
            limit,
            settling: Mutex::new(()),
            receiver: Some(AbortOnDropHandle::new(receiver)),
        })
    }

    fn closed(&self) -> BrokerError {
        BrokerError::Closed { queue: self.buffer.queue().to_owned() }
    }

    /// Sends acks or nacks for these tags. After an error the subscription ends, because it is unknown which tags
    /// were settled.
    async fn settle(&self, tags: &[DeliveryTag], how: Settlement) -> Result<(), BrokerError> {
        let _turn = self.settling.lock().await;
        let Frames { up_to, single } = self.buffer.settle(tags).map_err(|Ended| self.closed())?;
        let together = up_to.map(|tag| (tag, true));
        let frames = together.into_iter().chain(single.into_iter().map(|tag| (tag, false)));
        let writing = try_join_all(frames.map(|(tag, multiple)| async move {
            match how {
                Settlement::Ack => self.channel.basic_ack(tag, BasicAckOptions { multiple }).await,
                Settlement::Nack(requeue) => {
                    let requeue = requeue == Requeue::Yes;
                    self.channel.basic_nack(tag, BasicNackOptions { multiple, requeue }).await
                }
            }
        }));
        match with_timeout("settling", self.limit, writing).await {
            Ok(_) if !self.buffer.has_ended() => Ok(()),
            Ok(_) => Err(self.closed()),
            Err(error) => {
                self.buffer.end();
                Err(error.into_unreachable())
            }
        }
    }
}

/// A channel on which a subscription is being opened. If the subscription fails, `drop` closes the channel. Otherwise
/// lapin would keep the channel open when the server confirms the consumer too late, and the deliveries to this unused
/// consumer would stay unsettled.
struct Opening {
    channel: Channel,
    limit: Duration,
    is_subscribed: bool,
}

impl Opening {
    async fn consume(&mut self, queue: ShortString, prefetch: NonZeroU16) -> Result<Consumer, RabbitError> {
        let qos = self.channel.basic_qos(prefetch.get(), BasicQosOptions::default());
        with_timeout("setting the prefetch", self.limit, qos).await?;
        let options = BasicConsumeOptions::default();
        let arguments = FieldTable::default();
        let consume = self.channel.basic_consume(queue, "".into(), options, arguments);
        let consumer = with_timeout("subscribing", self.limit, consume).await?;
        self.is_subscribed = true;
        Ok(consumer)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if self.is_subscribed || !self.channel.status().connected() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let channel = self.channel.clone();
            let limit = self.limit;
            runtime.spawn(async move {
                // A timeout or error needs no reaction: the server still processes the close, unless the connection is
                // lost, which also ends the channel.
                let _ =
                    with_timeout("closing a channel", limit, channel.close(200, "not needed".into())).await;
            });
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Settlement {
    Ack,
    Nack(Requeue),
}

/// Receives deliveries until the server ends the consumer: the queue was deleted, or channel or connection was lost.
async fn receive(mut consumer: Consumer, buffer: Arc<DeliveryBuffer>, shared: Arc<Shared>) {
    loop {
        match consumer.next().await {
            Some(Ok(delivery)) => {
                let topology = shared.topology();
                buffer.push(delivery_of(delivery, buffer.queue(), topology.as_deref()));
            }
            Some(Err(error)) => {
                debug!(code = "rabbitmq.subscription-ended", queue = buffer.queue(), %error, "[RabbitMQ] subscription ended");
                break;
            }
            None => break,
        }
    }
    if !buffer.has_ended() {
        buffer.end();
        shared.recheck.notify_one();
    }
}

#[async_trait]
impl Subscription for RabbitSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        self.buffer.take().await.map_err(|Ended| self.closed())
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.settle(tags, Settlement::Ack).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.settle(tags, Settlement::Nack(requeue)).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.buffer.end();
        if self.channel.status().connected() {
            // An error is ignored: if the channel is closed, its deliveries were returned to the queue.
            let _ =
                with_timeout("closing a channel", self.limit, self.channel.close(200, "closed".into())).await;
        }
        Ok(())
    }
}

/// The channel is closed before the consumer is dropped. Otherwise lapin would cancel the consumer first, and a queue with a single active
/// consumer would deliver its next message to another one before the unsettled messages have returned.
impl Drop for RabbitSubscription {
    #[allow(clippy::disallowed_methods, reason = "the task ends with the channel")]
    fn drop(&mut self) {
        self.buffer.end();
        if !self.channel.status().connected() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let (channel, limit, receiver) = (self.channel.clone(), self.limit, self.receiver.take());
            runtime.spawn(async move {
                // An error needs no reaction: the connection is lost, which also ends the channel.
                let _ = with_timeout("closing a channel", limit, channel.close(200, "dropped".into())).await;
                drop(receiver);
            });
        }
    }
}
