//! What befalls messages on their way, and what has befallen them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use handover_events::EventId;
use handover_outbox::ports::{BrokerError, Clock};
use handover_system::SystemClock;
use marketplace::queues::FULFILLMENT_QUEUE;
use tokio::sync::watch;

/// Every so many deliveries one comes twice.
const DOUBLED: u64 = 10;

/// What happens to messages, and what has happened. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Mishaps(Arc<Shared>);

#[derive(Default)]
struct Shared {
    line: watch::Sender<Line>,
    ledger: Mutex<Ledger>,
}

/// The connection to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    is_cut: bool,
    /// How often it was cut: what was open before is lost for good.
    cuts: u32,
}

#[derive(Default)]
struct Ledger {
    deliveries: u64,
    ways: Ways,
    spoil: Spoil,
    away: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

/// The ways of messages, by queue and event.
pub(super) type Ways = BTreeMap<(String, EventId), Way>;

/// What became of the messages of one event at one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Way {
    /// Messages handed to the consumer as they were sent.
    pub(super) whole: u64,
    /// Copies put into the queue.
    pub(super) copies: u64,
    /// Messages that the consumer acked.
    pub(super) acked: u64,
}

/// What is to happen to a message on its way to a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives.
    Arrive,
    /// It arrives, and a copy of it after it.
    ComeTwice,
    /// One with this body takes its place.
    BeSpoiled(String),
    /// A spoiled one has taken its place before: this one was sent again.
    BeLost,
}

/// The one message that is to be spoiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Spoil {
    /// None.
    #[default]
    Never,
    /// That of an event after so many others.
    After(u64),
    /// It is chosen; the body is what is left of it.
    Chosen { spoiled: Spoiled, body: String, is_done: bool },
}

/// The message that was spoiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spoiled {
    /// At which queue.
    pub(super) queue: String,
    /// The event that it carried.
    pub(super) event: EventId,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Happened {
    /// What became of messages, by queue and event.
    pub(super) ways: Ways,
    /// The message that was spoiled.
    pub(super) spoiled: Option<Spoiled>,
    /// From when to when the broker was out of reach.
    pub(super) away: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Mishaps {
    /// Spoils the message of one event on its way to fulfillment: of the `number`th that comes there, from 1.
    pub(super) fn spoil(&self, number: u64) {
        self.ledger().spoil = Spoil::After(number.saturating_sub(1));
    }

    /// From here on the broker cannot be reached, and every connection to it is lost.
    pub(super) fn cut(&self) {
        self.0.line.send_modify(|line| *line = Line { is_cut: true, cuts: line.cuts + 1 });
        let now = SystemClock.now();
        self.ledger().away = Some((now, now));
    }

    /// The broker can be reached again.
    pub(super) fn mend(&self) {
        self.0.line.send_modify(|line| line.is_cut = false);
        if let Some((_, until)) = &mut self.ledger().away {
            *until = SystemClock.now();
        }
    }

    /// What has happened so far.
    pub(super) fn happened(&self) -> Happened {
        let ledger = self.ledger();
        Happened {
            ways: ledger.ways.clone(),
            spoiled: match &ledger.spoil {
                Spoil::Chosen { spoiled, is_done: true, .. } => Some(spoiled.clone()),
                Spoil::Never | Spoil::After(_) | Spoil::Chosen { is_done: false, .. } => None,
            },
            away: ledger.away,
        }
    }

    /// The connection, if there is one.
    pub(super) fn line(&self) -> Result<Line, BrokerError> {
        let line = *self.0.line.borrow();
        if line.is_cut { Err(unreachable()) } else { Ok(line) }
    }

    /// Whether a connection made then is still there.
    pub(super) fn holds(&self, line: Line) -> Result<(), BrokerError> {
        if *self.0.line.borrow() == line { Ok(()) } else { Err(unreachable()) }
    }

    /// Waits until a connection made then is lost.
    pub(super) async fn lost(&self, line: Line) {
        let mut now = self.0.line.subscribe();
        // An error would mean that the line is gone; then so is the connection.
        let _ = now.wait_for(|now| *now != line).await;
    }

    /// What is to happen to this message of an event on its way from that queue. The spoiled event is one that has not
    /// come there before, so that no copy of it is whole; and none is made of it later.
    pub(super) fn fate(&self, queue: &str, event: &EventId, body: &str) -> Fate {
        let mut ledger = self.ledger();
        let place = (queue.to_owned(), event.clone());
        let is_new = !ledger.ways.contains_key(&place);
        ledger.ways.entry(place).or_default();
        match &mut ledger.spoil {
            Spoil::Chosen { spoiled, body: rest, is_done } if spoiled.is_at(queue, event) => {
                return match (body == rest, *is_done) {
                    (true, _) => Fate::Arrive,
                    (false, true) => Fate::BeLost,
                    // Begun before, and then the connection was lost.
                    (false, false) => Fate::BeSpoiled(rest.clone()),
                };
            }
            spoil @ Spoil::After(0) if is_new && queue == FULFILLMENT_QUEUE => {
                let rest: String = body.chars().take(body.chars().count() / 2).collect();
                let spoiled = Spoiled { queue: queue.to_owned(), event: event.clone() };
                *spoil = Spoil::Chosen { spoiled, body: rest.clone(), is_done: false };
                return Fate::BeSpoiled(rest);
            }
            Spoil::After(others) if is_new && queue == FULFILLMENT_QUEUE => *others -= 1,
            Spoil::Never | Spoil::After(_) | Spoil::Chosen { .. } => {}
        }
        ledger.deliveries += 1;
        if ledger.deliveries.is_multiple_of(DOUBLED) { Fate::ComeTwice } else { Fate::Arrive }
    }

    /// The spoiled message is in its queue.
    pub(super) fn spoiled(&self) {
        if let Spoil::Chosen { is_done, .. } = &mut self.ledger().spoil {
            *is_done = true;
        }
    }

    /// A copy was put into that queue.
    pub(super) fn doubled(&self, queue: &str, event: &EventId) {
        self.ledger().way(queue, event).copies += 1;
    }

    /// This message is handed to the consumer of that queue.
    pub(super) fn handed(&self, queue: &str, event: &EventId, body: &str) {
        let mut ledger = self.ledger();
        let is_the_spoiled = matches!(&ledger.spoil,
            Spoil::Chosen { spoiled, body: rest, .. } if spoiled.is_at(queue, event) && body == rest);
        if !is_the_spoiled {
            ledger.way(queue, event).whole += 1;
        }
    }

    /// The consumer of that queue acks messages of these events.
    pub(super) fn acked(&self, queue: &str, events: &[EventId]) {
        let mut ledger = self.ledger();
        events.iter().for_each(|event| ledger.way(queue, event).acked += 1);
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    fn way(&mut self, queue: &str, event: &EventId) -> &mut Way {
        self.ways.entry((queue.to_owned(), event.clone())).or_default()
    }
}

impl Spoiled {
    fn is_at(&self, queue: &str, event: &EventId) -> bool {
        self.queue == queue && self.event == *event
    }
}

fn unreachable() -> BrokerError {
    BrokerError::Unreachable("the connection to the broker is lost".into())
}
