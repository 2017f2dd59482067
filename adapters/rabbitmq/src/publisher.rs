//! The task that publishes, on its own connection and channel.
//!
//! **Invariant:** a message counts as confirmed only if all confirms of its window have arrived, its own confirm is an
//! ack, and no message with its key was returned. lapin attaches a returned message to the next confirm that completes,
//! which may belong to another message. A return is therefore matched by its content, and only within a complete
//! window.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use handover_outbox::ports::{BrokerError, Outgoing, PublishOutcome, Route};
use handover_outbox::topology::Topology;
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use crate::error::{ErrorClass, RabbitError, with_timeout};
use crate::link::Link;
use crate::message::{properties_of, short};
use crate::shared::Shared;
use crate::topology::{Recipients, recipients};

pub(crate) type WindowResult = Result<Vec<PublishOutcome>, BrokerError>;

/// A window to publish, with the sender for its outcomes.
pub(crate) struct Job {
    pub(crate) window: Vec<Outgoing>,
    pub(crate) reply: oneshot::Sender<WindowResult>,
}

/// Publishes one window after the other until all senders are dropped. A received window is published even if
/// its caller is cancelled.
pub(crate) async fn run(mut jobs: mpsc::Receiver<Job>, shared: Arc<Shared>) {
    let mut publisher = Publisher { shared, open: None };
    while let Some(job) = jobs.recv().await {
        let reply = publisher.publish(job.window).await;
        // An error is ignored: the caller may have been cancelled.
        let _ = job.reply.send(reply);
    }
}

struct Publisher {
    shared: Arc<Shared>,
    open: Option<Open>,
}

/// A channel with publisher confirms.
struct Open {
    link: Arc<Link>,
    channel: Channel,
    /// A window was abandoned while the server blocked the connection. Its confirms and returns may still arrive, so
    /// the connection is replaced before the next window.
    is_unreliable: bool,
}

struct PreparedMessage {
    key: ReturnKey,
    properties: BasicProperties,
    /// Whether the server returns the message if no queue gets it.
    is_mandatory: bool,
    body: String,
}

/// Identifies a returned message. The server handles messages with the same key alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReturnKey {
    message_id: Option<ShortString>,
    exchange: ShortString,
    routing_key: ShortString,
}

/// A message of the window: sent, or not sendable.
enum WindowSlot {
    Sent(Outgoing, ReturnKey),
    Unsendable(Outgoing, String),
}

impl Publisher {
    async fn publish(&mut self, window: Vec<Outgoing>) -> WindowResult {
        if window.is_empty() {
            return Ok(Vec::new());
        }
        let frame_max = match self.open().await {
            Ok(open) => open.link.frame_max(),
            Err(error) => return Err(error.into_unreachable()),
        };
        let declared = self.shared.declared();
        if declared.is_none() && window.iter().any(|outgoing| matches!(outgoing.route(), Route::Topic(_))) {
            return Err(BrokerError::Unreachable("the topology is not declared yet".into()));
        }
        let mut slots = Vec::with_capacity(window.len());
        let mut messages = Vec::with_capacity(window.len());
        for outgoing in window {
            match prepare(declared.as_deref(), &outgoing, frame_max) {
                Ok(prepared) => {
                    slots.push(WindowSlot::Sent(outgoing, prepared.key.clone()));
                    messages.push(prepared);
                }
                Err(why) => slots.push(WindowSlot::Unsendable(outgoing, why)),
            }
        }
        match self.confirmations(messages).await {
            Ok(confirmations) => self.outcomes(slots, confirmations),
            Err(error) => self.failed(slots, error),
        }
    }

    /// Returns the channel; opens a new one if the last one is closed or unreliable. Fails while the server blocks the
    /// connection.
    async fn open(&mut self) -> Result<&Open, RabbitError> {
        if let Some(open) = &self.open {
            // A blocked connection is kept, because the server reports on this connection that the block has ended.
            if let Some(reason) = open.link.blocked().filter(|_| open.link.is_up()) {
                return Err(RabbitError::Blocked(reason));
            }
            if open.is_unreliable {
                open.link.abort();
            }
            if !open.link.is_up() || !open.channel.status().connected() {
                self.open = None;
            }
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let link = self.shared.publishing.link().await?;
                if let Some(reason) = link.blocked() {
                    return Err(RabbitError::Blocked(reason));
                }
                let channel = link.channel().await?;
                let select = channel.confirm_select(ConfirmSelectOptions::default());
                with_timeout("enabling publisher confirms", self.shared.settings.reply_timeout, select)
                    .await?;
                Open { link, channel, is_unreliable: false }
            }
        };
        Ok(self.open.insert(open))
    }

    /// Publishes the messages and returns their confirms, in order.
    async fn confirmations(&self, messages: Vec<PreparedMessage>) -> Result<Vec<Confirmation>, RabbitError> {
        let Some(open) = &self.open else {
            return Err(RabbitError::Other("the channel is closed".to_owned()));
        };
        let confirming =
            with_timeout("publishing", self.shared.settings.confirm_timeout, send(&open.channel, messages));
        tokio::select! {
            biased;
            confirmations = confirming => confirmations,
            reason = open.link.until_blocked() => Err(RabbitError::Blocked(reason)),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "all confirms of the window have arrived")]
    fn outcomes(&mut self, slots: Vec<WindowSlot>, confirmations: Vec<Confirmation>) -> WindowResult {
        let sent_keys: BTreeSet<&ReturnKey> = slots
            .iter()
            .filter_map(|place| match place {
                WindowSlot::Sent(_, key) => Some(key),
                WindowSlot::Unsendable(..) => None,
            })
            .collect();
        let mut acked = Vec::with_capacity(confirmations.len());
        let mut returned = BTreeMap::new();
        for confirmation in confirmations {
            acked.push(confirmation.is_ack());
            if let Some(message) = confirmation.take_message() {
                let (key, reason) = return_key(&message);
                if !sent_keys.contains(&key) {
                    self.abort_connection();
                    let what = format!("the server returned an unknown message: {key:?}");
                    return Err(RabbitError::Other(what).into_unreachable());
                }
                returned.insert(key, reason);
            }
        }
        if !returned.is_empty() {
            // The queue or binding of a returned message may have disappeared; the watch task then declares it again.
            self.shared.recheck.notify_one();
        }
        if acked.contains(&false) {
            if returned.is_empty() && !acked.contains(&true) {
                // If all messages were nacked, the server is the probable cause: this counts as an outage, not as a
                // failure of the messages.
                let what = format!("the server nacked all {} messages", acked.len());
                return self.failed(slots, RabbitError::Other(what));
            }
            // RabbitMQ nacks a message that it cannot pass to the leader of a queue. A channel that was opened while
            // there was no leader keeps using the former leader and nacks everything until that node returns. The
            // connection is therefore replaced.
            self.abort_connection();
        }
        let mut acked = acked.into_iter();
        Ok(slots
            .into_iter()
            .map(|place| match place {
                WindowSlot::Unsendable(outgoing, why) => outgoing.nacked(why),
                WindowSlot::Sent(outgoing, key) => match (returned.get(&key), acked.next()) {
                    (Some(reason), _) => outgoing.returned(reason),
                    (None, Some(true)) => outgoing.confirmed(),
                    (None, Some(false)) => outgoing.nacked("the server could not store it"),
                    (None, None) => outgoing.unknown("no confirm"),
                },
            })
            .collect())
    }

    /// Handles a window of unknown outcome. If the server closed the channel because of a message, the window is
    /// `Refused`, so that the caller publishes its messages one by one; in a window of one message, that message is
    /// `Nacked`.
    fn failed(&mut self, slots: Vec<WindowSlot>, error: RabbitError) -> WindowResult {
        debug!(code = "rabbitmq.window-not-confirmed", error = %error, "[RabbitMQ] window of {} messages not confirmed", slots.len());
        match (&error, &mut self.open) {
            (RabbitError::Blocked(_), Some(open)) => open.is_unreliable = true,
            _ => self.abort_connection(),
        }
        match error.class() {
            ErrorClass::Unreachable | ErrorClass::Denied => Err(error.into_unreachable()),
            ErrorClass::NotFound => {
                self.shared.recheck.notify_one();
                Err(error.into_unreachable())
            }
            ErrorClass::Invalid if slots.len() == 1 => Ok(slots
                .into_iter()
                .map(|place| match place {
                    WindowSlot::Sent(outgoing, _) => outgoing.nacked(error.to_string()),
                    WindowSlot::Unsendable(outgoing, why) => outgoing.nacked(why),
                })
                .collect()),
            ErrorClass::Invalid => Err(BrokerError::Refused { what: error.to_string() }),
        }
    }

    /// Aborts the connection; frames that are not written yet are discarded.
    fn abort_connection(&mut self) {
        if let Some(open) = self.open.take() {
            open.link.abort();
        }
    }
}

fn prepare(
    topology: Option<&Topology>,
    outgoing: &Outgoing,
    frame_max: usize,
) -> Result<PreparedMessage, String> {
    let (exchange, routing_key, recipients) = match (outgoing.route(), topology) {
        (Route::Topic(key), Some(topology)) => {
            (topology.exchange.as_str(), key, recipients(topology, key, outgoing.excluded()))
        }
        (Route::Topic(_), None) => return Err("the topology is not declared yet".to_owned()),
        // The default exchange routes a message to the queue whose name is the routing key, without bindings.
        (Route::Queue(queue), _) => ("", queue, Recipients { keys: Vec::new(), is_mandatory: true }),
    };
    let message = outgoing.message();
    let properties = properties_of(message, &recipients.keys, frame_max)?;
    let key = ReturnKey {
        message_id: properties.message_id().clone(),
        exchange: short("the exchange", exchange)?,
        routing_key: short("the routing key", routing_key)?,
    };
    Ok(PreparedMessage { key, properties, is_mandatory: recipients.is_mandatory, body: message.body.clone() })
}

fn return_key(message: &BasicReturnMessage) -> (ReturnKey, String) {
    let key = ReturnKey {
        message_id: message.delivery.properties.message_id().clone(),
        exchange: message.delivery.exchange.clone(),
        routing_key: message.delivery.routing_key.clone(),
    };
    (key, format!("{} {}", message.reply_code, message.reply_text))
}

/// Publishes all messages and waits for all confirms. The first poll of a publish appends its frames to the write
/// buffer, so a window is sent in order and in few writes.
async fn send(channel: &Channel, messages: Vec<PreparedMessage>) -> lapin::Result<Vec<Confirmation>> {
    let mut publishing = Vec::with_capacity(messages.len());
    for prepared in &messages {
        let ReturnKey { exchange, routing_key, .. } = prepared.key.clone();
        let properties = prepared.properties.clone();
        let options = BasicPublishOptions { mandatory: prepared.is_mandatory, immediate: false };
        let mut publish: Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send>> = Box::pin(
            channel.basic_publish(exchange, routing_key, options, prepared.body.as_bytes(), properties),
        );
        let first = std::future::poll_fn(|context| Poll::Ready(publish.as_mut().poll(context))).await;
        publishing.push(match first {
            Poll::Ready(done) => Publishing::Written(done?),
            Poll::Pending => Publishing::Pending(publish),
        });
    }
    let mut confirms = Vec::with_capacity(messages.len());
    for publishing in publishing {
        confirms.push(match publishing {
            Publishing::Written(confirm) => confirm,
            Publishing::Pending(publish) => publish.await?,
        });
    }
    let mut confirmations = Vec::with_capacity(messages.len());
    for confirm in confirms {
        confirmations.push(confirm.await?);
    }
    Ok(confirmations)
}

enum Publishing<'a> {
    Written(PublisherConfirm),
    Pending(Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send + 'a>>),
}
