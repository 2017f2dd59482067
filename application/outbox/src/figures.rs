//! Figures of the last five minutes of a process. Every process reports its own to the database, so that statistics and
//! alerts cover the whole deployment.

mod distribution;
mod window;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use window::Window;

pub use distribution::Distribution;
pub use window::PERIOD;

/// Figures of some time, of one process or of several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Figures {
    /// Publishes by result, as the metric `handover.publishes` counts them.
    pub publishes: BTreeMap<String, u64>,
    /// Time from the creation of an event to its confirm.
    pub commit_to_confirm: Distribution,
    /// Figures by consumer.
    pub consumers: BTreeMap<String, ConsumerFigures>,
}

/// Figures of one consumer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerFigures {
    /// Events whose attempt was recorded: applied ones, and failed attempts.
    pub attempts: u64,
    /// Sum of the recorded `cost_ms`.
    pub cost_ms: u64,
    /// Highest recorded `cost_ms`.
    pub max_cost_ms: u64,
    /// Time from the creation of an event to the commit of its effect.
    pub commit_to_effect: Distribution,
    /// Processes in which the breaker of the consumer is open.
    pub paused: u64,
}

impl Figures {
    /// Adds the figures of another time or process.
    pub fn add(&mut self, other: &Figures) {
        for (result, count) in &other.publishes {
            *self.publishes.entry(result.clone()).or_default() += count;
        }
        self.commit_to_confirm.add(&other.commit_to_confirm);
        for (consumer, other) in &other.consumers {
            let own = self.consumers.entry(consumer.clone()).or_default();
            own.attempts += other.attempts;
            own.cost_ms += other.cost_ms;
            own.max_cost_ms = own.max_cost_ms.max(other.max_cost_ms);
            own.commit_to_effect.add(&other.commit_to_effect);
            own.paused += other.paused;
        }
    }

    /// Publishes with any result.
    pub fn all_publishes(&self) -> u64 {
        self.publishes.values().sum()
    }

    /// Publishes that were not confirmed.
    pub fn failed_publishes(&self) -> u64 {
        self.all_publishes() - self.publishes.get(CONFIRMED).copied().unwrap_or(0)
    }
}

impl ConsumerFigures {
    /// Mean of the recorded `cost_ms`; `None` without attempts.
    pub fn mean_cost_ms(&self) -> Option<u64> {
        self.cost_ms.checked_div(self.attempts)
    }
}

/// Result of a publish that the broker confirmed.
pub(crate) const CONFIRMED: &str = "confirmed";

/// The figures that a process collects.
#[derive(Debug, Default)]
pub(crate) struct FiguresOfProcess(Mutex<Collected>);

#[derive(Debug, Default)]
struct Collected {
    window: Window<Figures>,
    /// Consumers, with whether their breaker is open.
    paused: BTreeMap<String, bool>,
    /// Why the database refused the last report of this process.
    refusal: Option<String>,
}

impl FiguresOfProcess {
    pub(crate) fn published(&self, now: DateTime<Utc>, result: &str, count: usize) {
        let mut collected = self.locked();
        let publishes = &mut collected.window.at(now).publishes;
        // Without an allocation for each publish.
        match publishes.get_mut(result) {
            Some(counted) => *counted += count as u64,
            None => drop(publishes.insert(result.to_owned(), count as u64)),
        }
    }

    pub(crate) fn confirmed(&self, now: DateTime<Utc>, after: TimeDelta) {
        self.locked().window.at(now).commit_to_confirm.record(after);
    }

    /// An effect was committed this time after the creation of its event.
    pub(crate) fn applied(&self, now: DateTime<Utc>, consumer: &str, after: TimeDelta) {
        self.of_consumer(now, consumer, |figures| figures.commit_to_effect.record(after));
    }

    /// An attempt was recorded with this cost.
    pub(crate) fn attempted(&self, now: DateTime<Utc>, consumer: &str, cost_ms: i64) {
        let cost_ms = u64::try_from(cost_ms).unwrap_or(0);
        self.of_consumer(now, consumer, |figures| {
            figures.attempts += 1;
            figures.cost_ms += cost_ms;
            figures.max_cost_ms = figures.max_cost_ms.max(cost_ms);
        });
    }

    /// The breaker of a consumer was opened or closed.
    pub(crate) fn paused(&self, consumer: &str, is_paused: bool) {
        self.locked().paused.insert(consumer.to_owned(), is_paused);
    }

    /// Sets why the database refuses writes; `None`: it accepts them. Returns the previous value.
    pub(crate) fn set_refusal(&self, refusal: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.locked().refusal, refusal)
    }

    /// Whether the database refused the last report of this process.
    pub(crate) fn is_refused(&self) -> bool {
        self.locked().refusal.is_some()
    }

    /// The figures of the last five minutes.
    pub(crate) fn recent(&self, now: DateTime<Utc>) -> Figures {
        let collected = self.locked();
        let mut all = Figures::default();
        collected.window.recent(now).for_each(|figures| all.add(figures));
        for (consumer, is_paused) in &collected.paused {
            all.consumers.entry(consumer.clone()).or_default().paused = u64::from(*is_paused);
        }
        all
    }

    fn of_consumer(&self, now: DateTime<Utc>, consumer: &str, change: impl FnOnce(&mut ConsumerFigures)) {
        let mut collected = self.locked();
        let consumers = &mut collected.window.at(now).consumers;
        match consumers.get_mut(consumer) {
            Some(figures) => change(figures),
            None => change(consumers.entry(consumer.to_owned()).or_default()),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
