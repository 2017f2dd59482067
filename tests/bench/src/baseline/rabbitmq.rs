//! RabbitMQ on one connection and one channel.

use futures_util::future::try_join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
    QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, Consumer, ExchangeKind, PublisherConfirm};

use super::error::BaselineError;
use super::event::Event;

/// Delivery mode of messages that survive a restart of the server (AMQP 0-9-1).
const PERSISTENT: u8 = 2;

/// A connection and a channel with publisher confirms.
pub(crate) struct RabbitConnection {
    connection: Connection,
    channel: Channel,
}

impl RabbitConnection {
    /// Opens a channel with publisher confirms on this connection.
    pub(crate) async fn on(connection: Connection) -> Result<RabbitConnection, BaselineError> {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(RabbitConnection { connection, channel })
    }

    /// Publishes events with their routing keys, all at once, and waits for every confirm.
    #[allow(clippy::disallowed_methods, reason = "the baseline publishes without a broker adapter")]
    pub(crate) async fn publish(
        &self,
        exchange: &str,
        events: &[(&str, &Event)],
    ) -> Result<(), BaselineError> {
        let sent = try_join_all(events.iter().map(|(key, event)| self.send(exchange, key, event))).await?;
        for confirmation in try_join_all(sent).await? {
            if !confirmation.is_ack() || confirmation.take_message().is_some() {
                return Err(BaselineError::Unexpected(
                    "RabbitMQ did not confirm a message, or returned it".to_owned(),
                ));
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        exchange: &str,
        key: &str,
        event: &Event,
    ) -> Result<PublisherConfirm, BaselineError> {
        let mut headers = FieldTable::default();
        for (name, value) in [
            ("aggregateId", event.aggregate_id.to_string()),
            ("aggregateType", event.aggregate_type.clone()),
            ("tenantId", event.tenant_id.to_string()),
        ] {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_message_id(event.event_id.as_str().into())
            .with_type(event.event_type.as_str().into())
            .with_correlation_id(event.trace_id.as_str().into())
            .with_headers(headers);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let body = event.body();
        Ok(self
            .channel
            .basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties)
            .await?)
    }

    /// Counts the ready messages and the consumers of a queue; `None` if it does not exist.
    pub(crate) async fn counts(&self, queue: &str) -> Result<Option<(u32, u32)>, BaselineError> {
        // A separate channel, because RabbitMQ closes the channel if the queue does not exist.
        let channel = self.connection.create_channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        match channel.queue_declare(queue.into(), options, FieldTable::default()).await {
            Ok(found) => {
                channel.close(200, "counted".into()).await?;
                Ok(Some((found.message_count(), found.consumer_count())))
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn has_exchange(&self, exchange: &str) -> Result<bool, BaselineError> {
        let channel = self.connection.create_channel().await?;
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let declared =
            channel.exchange_declare(exchange.into(), ExchangeKind::Topic, options, FieldTable::default());
        match declared.await {
            Ok(()) => {
                channel.close(200, "found".into()).await?;
                Ok(true)
            }
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn purge(&self, queue: &str) -> Result<(), BaselineError> {
        self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await?;
        Ok(())
    }

    /// Deletes a queue with its messages. Succeeds if the queue does not exist.
    pub(crate) async fn delete_queue(&self, queue: &str) -> Result<(), BaselineError> {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }

    /// Deletes an exchange with its bindings.
    pub(crate) async fn delete_exchange(&self, exchange: &str) -> Result<(), BaselineError> {
        self.channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await?;
        Ok(())
    }

    /// Subscribes to a queue on a separate channel.
    pub(crate) async fn consume(&self, queue: &str, prefetch: u16) -> Result<Deliveries, BaselineError> {
        let channel = self.connection.create_channel().await?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let arguments = FieldTable::default();
        let consumer = channel.basic_consume(queue.into(), "".into(), options, arguments).await?;
        Ok(Deliveries { channel, consumer })
    }

    pub(crate) async fn close(self) -> Result<(), BaselineError> {
        Ok(self.connection.close(200, "done".into()).await?)
    }
}

fn is_missing(error: &lapin::Error) -> bool {
    const NOT_FOUND: u16 = 404;
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error) if error.get_id() == NOT_FOUND)
}

pub(crate) struct Deliveries {
    channel: Channel,
    consumer: Consumer,
}

#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) bodies: Vec<String>,
    last_tag: u64,
}

impl Deliveries {
    /// Waits for a message and takes all others that are delivered already.
    pub(crate) async fn next(&mut self) -> Result<Delivered, BaselineError> {
        let ended = || BaselineError::Unexpected("RabbitMQ ended the subscription".to_owned());
        let mut delivered = Delivered { bodies: Vec::new(), last_tag: 0 };
        delivered.add(self.consumer.next().await.ok_or_else(ended)??);
        while let Some(delivery) = self.consumer.next().now_or_never() {
            delivered.add(delivery.ok_or_else(ended)??);
        }
        Ok(delivered)
    }

    /// Acks these messages and all before them with one frame.
    pub(crate) async fn ack(&self, delivered: &Delivered) -> Result<(), BaselineError> {
        self.channel.basic_ack(delivered.last_tag, BasicAckOptions { multiple: true }).await?;
        Ok(())
    }
}

impl Delivered {
    fn add(&mut self, delivery: Delivery) {
        self.last_tag = delivery.delivery_tag;
        self.bodies.push(String::from_utf8_lossy(&delivery.data).into_owned());
    }
}
