//! RabbitMQ by one connection and one channel.

use futures_util::future::try_join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
    QueuePurgeOptions,
};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind, PublisherConfirm,
};

use super::error::BareError;
use super::event::Event;

/// Survives a restart of the server.
const PERSISTENT: u8 = 2;

/// A connection and a channel with confirms.
pub struct BareQueue {
    connection: Connection,
    channel: Channel,
}

impl BareQueue {
    /// Connects, of several hosts to the first; `authorities` are certificates (PEM) for `amqps`.
    pub async fn connect(url: &str, authorities: Option<String>) -> Result<BareQueue, BareError> {
        let mut uri: AMQPUri = first_host(url).parse().map_err(BareError::Odd)?;
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        let tls = OwnedTLSConfig { identity: None, cert_chain: authorities };
        let runtime = lapin::runtime::default_runtime().map_err(|error| BareError::Odd(error.to_string()))?;
        let connection =
            Connection::connect_uri_with_config(uri, ConnectionProperties::default(), tls, runtime).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(BareQueue { connection, channel })
    }

    /// Publishes events with these keys, all at once, and waits for every confirm.
    #[allow(clippy::disallowed_methods, reason = "here the confirms are seen")]
    pub async fn publish(&self, exchange: &str, events: &[(&str, &Event)]) -> Result<(), BareError> {
        let sent = try_join_all(events.iter().map(|(key, event)| self.send(exchange, key, event))).await?;
        for confirmation in try_join_all(sent).await? {
            if !confirmation.is_ack() || confirmation.take_message().is_some() {
                return Err(BareError::Odd("RabbitMQ did not take a message".to_owned()));
            }
        }
        Ok(())
    }

    async fn send(&self, exchange: &str, key: &str, event: &Event) -> Result<PublisherConfirm, BareError> {
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

    /// How many messages are ready in a queue, and how many consume it; nothing where there is no such queue.
    pub async fn counts(&self, queue: &str) -> Result<Option<(u32, u32)>, BareError> {
        // A channel of its own: a queue that is missing closes it.
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

    /// Whether there is such an exchange.
    pub async fn has_exchange(&self, exchange: &str) -> Result<bool, BareError> {
        let channel = self.connection.create_channel().await?;
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let asked =
            channel.exchange_declare(exchange.into(), ExchangeKind::Topic, options, FieldTable::default());
        match asked.await {
            Ok(()) => {
                channel.close(200, "looked".into()).await?;
                Ok(true)
            }
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Empties a queue.
    pub async fn purge(&self, queue: &str) -> Result<(), BareError> {
        self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await?;
        Ok(())
    }

    /// Deletes a queue with what is in it; one that is missing is deleted already.
    pub async fn delete_queue(&self, queue: &str) -> Result<(), BareError> {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }

    /// Deletes an exchange with its bindings.
    pub async fn delete_exchange(&self, exchange: &str) -> Result<(), BareError> {
        self.channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await?;
        Ok(())
    }

    /// Consumes a queue, on a channel of its own.
    pub async fn consume(&self, queue: &str, prefetch: u16) -> Result<Deliveries, BareError> {
        let channel = self.connection.create_channel().await?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(queue.into(), "".into(), options, arguments).await?;
        Ok(Deliveries { channel, consumer })
    }

    /// Says goodbye.
    pub async fn close(self) -> Result<(), BareError> {
        Ok(self.connection.close(200, "done".into()).await?)
    }
}

/// The URL without the hosts behind the first comma.
fn first_host(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    let begin = url[begin..end].rfind('@').map_or(begin, |at| begin + at);
    match url[begin..end].find(',') {
        Some(comma) => format!("{}{}", &url[..begin + comma], &url[end..]),
        None => url.to_owned(),
    }
}

fn is_missing(error: &lapin::Error) -> bool {
    const NOT_FOUND: u16 = 404;
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error) if error.get_id() == NOT_FOUND)
}

/// What a queue hands over, and how it is acked.
pub struct Deliveries {
    channel: Channel,
    consumer: Consumer,
}

/// Messages that are there.
#[derive(Debug)]
pub struct Delivered {
    /// What they carry.
    pub bodies: Vec<String>,
    last: u64,
}

impl Deliveries {
    /// Waits for a message and takes what is there with it.
    pub async fn next(&mut self) -> Result<Delivered, BareError> {
        let over = || BareError::Odd("RabbitMQ ended the subscription".to_owned());
        let mut taken = Delivered { bodies: Vec::new(), last: 0 };
        taken.add(self.consumer.next().await.ok_or_else(over)??);
        while let Some(delivery) = self.consumer.next().now_or_never() {
            taken.add(delivery.ok_or_else(over)??);
        }
        Ok(taken)
    }

    /// Acks these and all before them, by one frame.
    pub async fn ack(&self, delivered: &Delivered) -> Result<(), BareError> {
        self.channel.basic_ack(delivered.last, BasicAckOptions { multiple: true }).await?;
        Ok(())
    }
}

impl Delivered {
    fn add(&mut self, delivery: Delivery) {
        self.last = delivery.delivery_tag;
        self.bodies.push(String::from_utf8_lossy(&delivery.data).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::first_host;

    #[test]
    fn of_several_hosts_the_first_is_taken() {
        for (url, first) in [
            ("amqp://u:p,w@a:1,b:2/v", "amqp://u:p,w@a:1/v"),
            ("amqp://a:1,b:2?heartbeat=1", "amqp://a:1?heartbeat=1"),
            ("amqp://u:p@a/v,w", "amqp://u:p@a/v,w"),
        ] {
            assert_eq!(first_host(url), first);
        }
    }
}
