//! A consumer on a channel of its own.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use handover_application::ports::{BrokerError, Delivery, DeliveryTag, Requeue, Subscription};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
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
            let qos = channel.basic_qos(prefetch.get(), BasicQosOptions::default());
            answered("setting the prefetch", limit, qos).await?;
            let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
            let consume = channel.basic_consume(name, "".into(), options, arguments);
            let consumer = answered("subscribing", limit, consume).await?;
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
