//! A consumer on a channel of its own.

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
use tracing::info;

use crate::fault::{Fault, Kind, answered};
use crate::inbox::{Ended, Frames, Inbox};
use crate::message::{delivery_of, short};
use crate::shared::Shared;

/// A consumer's end of a queue. Its channel closes with it, and RabbitMQ takes back what is unsettled.
pub(crate) struct RabbitSubscription {
    inbox: Arc<Inbox>,
    channel: Channel,
    limit: Duration,
    /// Acks reach the server in the order in which tags were struck out, or one for several would settle too much.
    settling: Mutex<()>,
    _intake: AbortOnDropHandle<()>,
}

impl RabbitSubscription {
    #[allow(clippy::disallowed_methods, reason = "the task ends with the subscription")]
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<RabbitSubscription, BrokerError> {
        let name = short("the queue", queue).map_err(|what| BrokerError::Refused { what })?;
        let limit = shared.settings.answer_timeout;
        let opening = async {
            let channel = shared.consuming.link().await?.channel().await?;
            let mut opening = Opening { channel: channel.clone(), limit, is_subscribed: false };
            let consumer = opening.consume(name, prefetch).await?;
            Ok::<_, Fault>((channel, consumer))
        };
        let (channel, consumer) = opening.await.map_err(|fault| {
            if fault.kind() == Kind::Missing {
                shared.look_again.notify_one();
            }
            fault.refused_or_away()
        })?;
        let inbox = shared.inbox(queue);
        let intake = tokio::spawn(take_in(consumer, Arc::clone(&inbox), Arc::clone(shared)));
        Ok(RabbitSubscription {
            inbox,
            channel,
            limit,
            settling: Mutex::new(()),
            _intake: AbortOnDropHandle::new(intake),
        })
    }

    fn closed(&self) -> BrokerError {
        BrokerError::Closed { queue: self.inbox.queue().to_owned() }
    }

    /// Writes an ack or a nack for these tags. One that fails ends the subscription: nobody knows what it settled.
    async fn settle(&self, tags: &[DeliveryTag], how: How) -> Result<(), BrokerError> {
        let _turn = self.settling.lock().await;
        let Frames { up_to, single } = self.inbox.settle(tags).map_err(|Ended| self.closed())?;
        let together = up_to.map(|tag| (tag, true));
        let frames = together.into_iter().chain(single.into_iter().map(|tag| (tag, false)));
        let writing = try_join_all(frames.map(|(tag, multiple)| async move {
            match how {
                How::Ack => self.channel.basic_ack(tag, BasicAckOptions { multiple }).await,
                How::Nack(requeue) => {
                    let requeue = requeue == Requeue::Yes;
                    self.channel.basic_nack(tag, BasicNackOptions { multiple, requeue }).await
                }
            }
        }));
        match answered("settling", self.limit, writing).await {
            Ok(_) if !self.inbox.has_ended() => Ok(()),
            Ok(_) => Err(self.closed()),
            Err(fault) => {
                self.inbox.end();
                Err(fault.away())
            }
        }
    }
}

/// A channel on its way to be a subscription's. Where it does not become one, it is closed: lapin keeps it open for a
/// consumer that the server confirms too late, of which it then tells nobody, and which keeps what it is handed.
struct Opening {
    channel: Channel,
    limit: Duration,
    is_subscribed: bool,
}

impl Opening {
    async fn consume(&mut self, queue: ShortString, prefetch: NonZeroU16) -> Result<Consumer, Fault> {
        let qos = self.channel.basic_qos(prefetch.get(), BasicQosOptions::default());
        answered("setting the prefetch", self.limit, qos).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consume = self.channel.basic_consume(queue, "".into(), options, arguments);
        let consumer = answered("subscribing", self.limit, consume).await?;
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
            let (channel, limit) = (self.channel.clone(), self.limit);
            runtime.spawn(async move {
                // Late or failed: it was written, and the server comes to it after what it is busy with.
                let _ = answered("closing a channel", limit, channel.close(200, "not needed".into())).await;
            });
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum How {
    Ack,
    Nack(Requeue),
}

/// Takes deliveries in until the server ends it: the queue was deleted, the channel or the connection is gone.
async fn take_in(mut consumer: Consumer, inbox: Arc<Inbox>, shared: Arc<Shared>) {
    loop {
        match consumer.next().await {
            Some(Ok(delivery)) => inbox.push(delivery_of(delivery)),
            Some(Err(error)) => {
                info!(queue = inbox.queue(), %error, "[RabbitMQ] a subscription ended");
                break;
            }
            None => break,
        }
    }
    if !inbox.has_ended() {
        inbox.end();
        shared.look_again.notify_one();
    }
}

#[async_trait]
impl Subscription for RabbitSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        self.inbox.take().await.map_err(|Ended| self.closed())
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.settle(tags, How::Ack).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.settle(tags, How::Nack(requeue)).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inbox.end();
        if self.channel.status().connected() {
            // A channel that is gone has returned its deliveries as well.
            let _ = answered("closing a channel", self.limit, self.channel.close(200, "closed".into())).await;
        }
        Ok(())
    }
}

impl Drop for RabbitSubscription {
    fn drop(&mut self) {
        // The channel closes itself when its last handle is gone.
        self.inbox.end();
    }
}
