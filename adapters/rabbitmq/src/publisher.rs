//! The one task that publishes, on a connection and a channel of its own.
//!
//! **Invariant:** a message is confirmed only if every confirm of its window is in, its own is an ack, and no message
//! like it came back. lapin hands a returned message out with whichever confirm completes next, so a return is told by
//! what it carries, and only within a window that is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use handover_outbox::ports::{BrokerError, Outgoing, PublishOutcome, Route};
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::fault::{Fault, Kind, answered};
use crate::link::Link;
use crate::message::{properties_of, short};
use crate::shared::Shared;

/// What became of a window.
pub(crate) type Answer = Result<Vec<PublishOutcome>, BrokerError>;

/// A window to be published, and who waits for what becomes of it.
pub(crate) struct Job {
    pub(crate) window: Vec<Outgoing>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// Publishes window by window until nobody can ask for more. A window that was handed over is published whole, also if
/// its caller went away.
pub(crate) async fn run(mut jobs: mpsc::Receiver<Job>, shared: Arc<Shared>) {
    let mut publisher = Publisher { shared, open: None };
    while let Some(job) = jobs.recv().await {
        let answer = publisher.publish(job.window).await;
        // The caller may have gone away.
        let _ = job.answer.send(answer);
    }
}

struct Publisher {
    shared: Arc<Shared>,
    open: Option<Open>,
}

/// A channel with confirms.
struct Open {
    link: Arc<Link>,
    channel: Channel,
    /// A window on it was given up while the server took nothing: its confirms and returns may still come.
    doubtful: bool,
}

/// A message as it goes out.
struct Parcel {
    address: Address,
    properties: BasicProperties,
    body: String,
}

/// What a returned message is known by. Messages that share it are treated alike by the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    message_id: Option<ShortString>,
    exchange: ShortString,
    routing_key: ShortString,
}

/// A message of the window: on its way, or never sent because it cannot be.
enum Place {
    Sent(Outgoing, Address),
    Unsendable(Outgoing, String),
}

impl Publisher {
    async fn publish(&mut self, window: Vec<Outgoing>) -> Answer {
        if window.is_empty() {
            return Ok(Vec::new());
        }
        let frame_max = match self.open().await {
            Ok(open) => open.link.frame_max(),
            Err(fault) => return Err(fault.away()),
        };
        let declared = self.shared.exchange();
        if declared.is_none() && window.iter().any(|outgoing| matches!(outgoing.route(), Route::Topic(_))) {
            let what = "no exchange is declared: declare the topology first".to_owned();
            return Err(BrokerError::Refused { what });
        }
        let exchange = declared.unwrap_or_default();
        let (mut places, mut parcels) = (Vec::with_capacity(window.len()), Vec::with_capacity(window.len()));
        for outgoing in window {
            match pack(&exchange, &outgoing, frame_max) {
                Ok(parcel) => {
                    places.push(Place::Sent(outgoing, parcel.address.clone()));
                    parcels.push(parcel);
                }
                Err(why) => places.push(Place::Unsendable(outgoing, why)),
            }
        }
        match self.confirmations(parcels).await {
            Ok(confirmations) => self.sort(places, confirmations),
            Err(fault) => self.failed(places, fault),
        }
    }

    /// The channel, opened anew where the last one is gone or not to be trusted.
    async fn open(&mut self) -> Result<&Open, Fault> {
        if let Some(open) = &self.open {
            // The connection is kept while it is blocked: it is how the end of that is learnt.
            if let Some(reason) = open.link.blocked().filter(|_| open.link.is_up()) {
                return Err(Fault::Blocked(reason));
            }
            if open.doubtful {
                open.link.cut();
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
                    return Err(Fault::Blocked(reason));
                }
                let channel = link.channel().await?;
                let select = channel.confirm_select(ConfirmSelectOptions::default());
                answered("asking for confirms", self.shared.settings.answer_timeout, select).await?;
                Open { link, channel, doubtful: false }
            }
        };
        Ok(self.open.insert(open))
    }

    /// Every confirm of a window, in its order.
    async fn confirmations(&self, parcels: Vec<Parcel>) -> Result<Vec<Confirmation>, Fault> {
        let Some(open) = &self.open else { return Err(Fault::Broken("the channel is closed".to_owned())) };
        let confirming =
            answered("publishing", self.shared.settings.confirm_timeout, send(&open.channel, parcels));
        tokio::select! {
            biased;
            confirmations = confirming => confirmations,
            reason = open.link.until_blocked() => Err(Fault::Blocked(reason)),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "here the confirms are seen")]
    fn sort(&mut self, places: Vec<Place>, confirmations: Vec<Confirmation>) -> Answer {
        let known: BTreeSet<&Address> = places
            .iter()
            .filter_map(|place| match place {
                Place::Sent(_, address) => Some(address),
                Place::Unsendable(..) => None,
            })
            .collect();
        let (mut acked, mut returned) = (Vec::with_capacity(confirmations.len()), BTreeMap::new());
        for confirmation in confirmations {
            acked.push(confirmation.is_ack());
            if let Some(message) = confirmation.take_message() {
                let (address, reason) = told_by(&message);
                if !known.contains(&address) {
                    self.retire();
                    let what = format!("the server returned a message that was not sent: {address:?}");
                    return Err(Fault::Broken(what).away());
                }
                returned.insert(address, reason);
            }
        }
        if !returned.is_empty() {
            // Its queue or binding may have disappeared.
            self.shared.look_again.notify_one();
        }
        if acked.contains(&false) {
            if returned.is_empty() && !acked.contains(&true) {
                // It is not the messages: an outage is charged to none of them.
                let what = format!("the server nacked all {} messages", acked.len());
                return self.failed(places, Fault::Broken(what));
            }
            // RabbitMQ nacks what it cannot hand to the leader of a queue. A channel that was opened while there was no
            // leader keeps looking for the old one, and nacks everything until that node is back.
            self.retire();
        }
        let mut acked = acked.into_iter();
        Ok(places
            .into_iter()
            .map(|place| match place {
                Place::Unsendable(outgoing, why) => outgoing.nacked(why),
                Place::Sent(outgoing, address) => match (returned.get(&address), acked.next()) {
                    (Some(reason), _) => outgoing.returned(reason),
                    (None, Some(true)) => outgoing.confirmed(),
                    (None, Some(false)) => outgoing.nacked("the server could not take it"),
                    (None, None) => outgoing.unknown("no confirm"),
                },
            })
            .collect())
    }

    /// Nothing is known of what was sent. Where the server closed the channel because of a message, the window is
    /// refused, so that the caller publishes it one by one; alone, the message is the culprit.
    fn failed(&mut self, places: Vec<Place>, fault: Fault) -> Answer {
        warn!(error = %fault, "[RabbitMQ] a window of {} messages was not confirmed", places.len());
        match (&fault, &mut self.open) {
            (Fault::Blocked(_), Some(open)) => open.doubtful = true,
            _ => self.retire(),
        }
        match fault.kind() {
            Kind::Away | Kind::Denied => Err(fault.away()),
            Kind::Missing => {
                self.shared.look_again.notify_one();
                Err(fault.away())
            }
            Kind::Unfit if places.len() == 1 => Ok(places
                .into_iter()
                .map(|place| match place {
                    Place::Sent(outgoing, _) => outgoing.nacked(fault.to_string()),
                    Place::Unsendable(outgoing, why) => outgoing.nacked(why),
                })
                .collect()),
            Kind::Unfit => Err(BrokerError::Refused { what: fault.to_string() }),
        }
    }

    /// Ends the connection with whatever is on its way.
    fn retire(&mut self) {
        if let Some(open) = self.open.take() {
            open.link.cut();
        }
    }
}

fn pack(exchange: &str, outgoing: &Outgoing, frame_max: usize) -> Result<Parcel, String> {
    // The default exchange leads to the queue of that name, past every binding.
    let (exchange, routing_key) = match outgoing.route() {
        Route::Topic(routing_key) => (exchange, routing_key),
        Route::Queue(queue) => ("", queue),
    };
    let message = outgoing.message();
    let properties = properties_of(message, frame_max)?;
    let address = Address {
        message_id: properties.message_id().clone(),
        exchange: short("the exchange", exchange)?,
        routing_key: short("the routing key", routing_key)?,
    };
    Ok(Parcel { address, properties, body: message.body.clone() })
}

fn told_by(message: &BasicReturnMessage) -> (Address, String) {
    let address = Address {
        message_id: message.delivery.properties.message_id().clone(),
        exchange: message.delivery.exchange.clone(),
        routing_key: message.delivery.routing_key.clone(),
    };
    (address, format!("{} {}", message.reply_code, message.reply_text))
}

/// Publishes all and waits for all. The first poll of a publish puts its frames behind those before it, so a window
/// goes out in its order and in few writes.
async fn send(channel: &Channel, parcels: Vec<Parcel>) -> lapin::Result<Vec<Confirmation>> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let mut publishing = Vec::with_capacity(parcels.len());
    for parcel in &parcels {
        let Address { exchange, routing_key, .. } = parcel.address.clone();
        let properties = parcel.properties.clone();
        let mut publish: Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send>> = Box::pin(
            channel.basic_publish(exchange, routing_key, options, parcel.body.as_bytes(), properties),
        );
        let first = std::future::poll_fn(|context| Poll::Ready(publish.as_mut().poll(context))).await;
        publishing.push(match first {
            Poll::Ready(done) => Publishing::Written(done?),
            Poll::Pending => Publishing::OnItsWay(publish),
        });
    }
    let mut confirms = Vec::with_capacity(parcels.len());
    for publishing in publishing {
        confirms.push(match publishing {
            Publishing::Written(confirm) => confirm,
            Publishing::OnItsWay(publish) => publish.await?,
        });
    }
    let mut confirmations = Vec::with_capacity(parcels.len());
    for confirm in confirms {
        confirmations.push(confirm.await?);
    }
    Ok(confirmations)
}

enum Publishing<'a> {
    Written(PublisherConfirm),
    OnItsWay(Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send + 'a>>),
}
