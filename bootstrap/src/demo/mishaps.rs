//! What befalls messages on their way, and what has befallen them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use handover_application::ports::{BrokerError, Clock};
use handover_application::topology::FULFILLMENT_QUEUE;
use handover_domain::EventId;
use handover_system::SystemClock;
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
    doubled: u64,
    /// How often each message was acked, by queue and message id.
    acked: BTreeMap<(String, String), u64>,
    spoil: Spoil,
    away: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

/// The one message that is to be spoiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Spoil {
    /// None.
    #[default]
    Never,
    /// The one after so many others.
    After(u64),
    /// It is done.
    Done(Spoiled),
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
    /// Copies put into queues.
    pub(super) doubled: u64,
    /// Messages acked beyond the first of each event at each queue.
    pub(super) repeats: u64,
    /// The message that was spoiled.
    pub(super) spoiled: Option<Spoiled>,
    /// From when to when the broker was out of reach.
    pub(super) away: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Mishaps {
    /// Spoils one message about a payment on its way to fulfillment: the `number`th, from 1.
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
            doubled: ledger.doubled,
            repeats: ledger.acked.values().map(|acks| acks - 1).sum(),
            spoiled: match &ledger.spoil {
                Spoil::Done(spoiled) => Some(spoiled.clone()),
                Spoil::Never | Spoil::After(_) => None,
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

    /// That message was spoiled.
    pub(super) fn spoiled(&self, spoiled: Spoiled) {
        self.ledger().spoil = Spoil::Done(spoiled);
    }

    /// A delivery was doubled.
    pub(super) fn doubled(&self) {
        self.ledger().doubled += 1;
    }

    /// These messages were acked at that queue.
    pub(super) fn acked(&self, queue: &str, ids: Vec<String>) {
        let mut ledger = self.ledger();
        for id in ids {
            *ledger.acked.entry((queue.to_owned(), id)).or_insert(0) += 1;
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this delivery is one that comes twice. The spoiled one is not: it is told from its copies by nothing.
    pub(super) fn is_to_double(&self, queue: &str, event: &EventId) -> bool {
        let mut ledger = self.ledger();
        if matches!(&ledger.spoil, Spoil::Done(spoiled) if spoiled.queue == queue && spoiled.event == *event)
        {
            return false;
        }
        ledger.deliveries += 1;
        ledger.deliveries.is_multiple_of(DOUBLED)
    }

    /// Whether this delivery at that queue is the one to be spoiled.
    pub(super) fn is_to_spoil(&self, queue: &str) -> bool {
        let mut ledger = self.ledger();
        match &mut ledger.spoil {
            Spoil::After(0) => queue == FULFILLMENT_QUEUE,
            Spoil::After(others) if queue == FULFILLMENT_QUEUE => {
                *others -= 1;
                false
            }
            Spoil::Never | Spoil::After(_) | Spoil::Done(_) => false,
        }
    }
}

fn unreachable() -> BrokerError {
    BrokerError::Unreachable("the connection to the broker is lost".into())
}
