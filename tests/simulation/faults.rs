//! What can go wrong, how often, and until when. Each seed enables a subset of its own, so that rare combinations occur.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_domain::{EventId, OrderId};

use super::chance::Dice;
use super::mutants::Mutant;

/// Rates in 1,000 calls.
#[derive(Debug, Clone)]
pub struct Rates {
    pub store_away: u64,
    pub store_transient: u64,
    pub commit_lost: u64,
    pub commit_unknown: u64,
    pub statement_refused: u64,
    pub slow: u64,
    pub stall: u64,
    pub confirm_lost: u64,
    pub publish_lost: u64,
    pub nacked: u64,
    pub doubled: u64,
    pub dropped_after_confirm: u64,
    pub late: u64,
    pub ack_lost: u64,
    pub channel_closed: u64,
    pub crash: u64,
    pub broker_outage: bool,
    pub unroutable_burst: bool,
    pub hang_up: u64,
    pub poison: bool,
    pub garbage: bool,
}

impl Rates {
    /// The swarm: every fault is in about half of all runs.
    fn of(dice: &Dice) -> Rates {
        let often = |rate: u64| if dice.permille(500) { rate } else { 0 };
        Rates {
            store_away: often(8),
            store_transient: often(15),
            commit_lost: often(15),
            commit_unknown: often(30),
            statement_refused: often(5),
            slow: often(30),
            stall: often(6),
            confirm_lost: often(50),
            publish_lost: often(40),
            nacked: often(60),
            doubled: often(80),
            dropped_after_confirm: often(20),
            late: often(60),
            ack_lost: often(50),
            channel_closed: often(20),
            crash: often(400),
            broker_outage: dice.permille(300),
            unroutable_burst: dice.permille(300),
            hang_up: often(100),
            poison: dice.permille(300),
            garbage: dice.permille(300),
        }
    }
}

/// What all wrappers of a run share.
#[derive(Clone)]
pub struct Faults {
    pub dice: Dice,
    pub rates: Arc<Rates>,
    pub mutant: Option<Mutant>,
    healed: Arc<AtomicBool>,
    unroutable: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    viewing: Arc<Mutex<BTreeMap<String, u32>>>,
}

/// A view that is open, and the task that opened it.
pub struct Viewing {
    task: String,
    viewing: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let mut viewing = self.viewing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = viewing.get_mut(&self.task) {
            *open -= 1;
        }
    }
}

/// What the wrappers saw that the tables at the end do not tell.
#[derive(Default)]
struct Seen {
    story: Vec<String>,
    violations: Vec<String>,
    confirmed: BTreeSet<EventId>,
    garbage: Vec<String>,
    reached: BTreeSet<&'static str>,
}

impl Faults {
    pub fn new(dice: Dice, mutant: Option<Mutant>) -> Faults {
        Faults {
            rates: Arc::new(Rates::of(&dice)),
            dice,
            mutant,
            healed: Arc::default(),
            unroutable: Arc::default(),
            seen: Arc::default(),
            viewing: Arc::default(),
        }
    }

    /// From now on nothing goes wrong any more.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
        self.unroutable.store(false, Ordering::Relaxed);
    }

    pub fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    pub fn set_unroutable(&self, unroutable: bool) {
        self.unroutable.store(unroutable && !self.is_healed(), Ordering::Relaxed);
    }

    pub fn is_unroutable(&self) -> bool {
        self.unroutable.load(Ordering::Relaxed)
    }

    /// Whether this fault strikes now.
    pub fn strikes(&self, rate: u64) -> bool {
        rate > 0 && !self.is_healed() && self.dice.permille(rate)
    }

    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// How long a call takes: mostly little, sometimes longer than a lease.
    pub async fn delay(&self) {
        let pause = if self.is_healed() {
            self.dice.millis(0..3)
        } else if self.strikes(self.rates.stall) {
            self.dice.millis(1_500..5_000)
        } else if self.strikes(self.rates.slow) {
            self.dice.millis(0..400)
        } else {
            self.dice.millis(0..15)
        };
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        }
    }

    /// A line of the run's story, for the same run to be compared with itself and for a person who looks for a cause.
    pub fn note(&self, line: impl FnOnce() -> String) {
        self.seen().story.push(line());
    }

    pub fn story(&self) -> Vec<String> {
        self.seen().story.clone()
    }

    /// A promise that was broken on the way; the system may well recover from it, it is broken all the same.
    pub fn violation(&self, what: String) {
        let mut seen = self.seen();
        seen.story.push(what.clone());
        seen.violations.push(what);
    }

    pub fn violations(&self) -> Vec<String> {
        self.seen().violations.clone()
    }

    /// Whether no consumer can apply events of this order, as long as the chaos lasts.
    pub fn is_poisoned(&self, order: OrderId) -> bool {
        self.rates.poison && !self.is_healed() && order.get() % 4 == 0
    }

    /// Something that is no event of ours was put into a queue; it has to end up where a person sees it.
    pub fn add_garbage(&self, body: &str) {
        self.seen().garbage.push(body.to_owned());
    }

    pub fn garbage(&self) -> Vec<String> {
        self.seen().garbage.clone()
    }

    /// The present task opens a view. It must not ask for anything else of the store, the broker's tables among it, as
    /// long as it holds one: four tasks that do so stop every read of a process with four readers.
    pub fn opens_view(&self) -> Option<Viewing> {
        let task = tokio::task::try_id()?.to_string();
        self.asks_store("a second view");
        *self.viewing.lock().unwrap_or_else(PoisonError::into_inner).entry(task.clone()).or_insert(0) += 1;
        Some(Viewing { task, viewing: Arc::clone(&self.viewing) })
    }

    /// The present task asks for something that may need a connection.
    pub fn asks_store(&self, what: &str) {
        let Some(task) = tokio::task::try_id() else { return };
        let viewing = self.viewing.lock().unwrap_or_else(PoisonError::into_inner);
        let open = viewing.get(&task.to_string()).is_some_and(|open| *open > 0);
        drop(viewing);
        if open {
            self.violation(format!("a task that holds a view asked for {what}"));
        }
    }

    /// A place where it hurts was reached.
    pub fn reach(&self, place: &'static str) {
        self.seen().reached.insert(place);
    }

    pub fn reached(&self) -> BTreeSet<&'static str> {
        self.seen().reached.clone()
    }

    /// The broker has said that it has this event, in a queue.
    pub fn broker_confirmed(&self, event: &EventId) {
        self.seen().confirmed.insert(event.clone());
    }

    pub fn confirmed(&self) -> BTreeSet<EventId> {
        self.seen().confirmed.clone()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
