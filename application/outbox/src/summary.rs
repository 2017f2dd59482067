//! A summary of the events of one process, for a log without a line per event.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::TimeDelta;
use tracing::info;

use crate::figures::Distribution;
use crate::transaction::Transactor;

/// Time between two summaries.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts the events that this process publishes and applies, and logs the counts every 10 seconds: one line for the relay
/// and one for each consumer that had events in this time. Off until
/// [`start_summary`](crate::runtime::start_summary) is called. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventSummary(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_enabled: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    relay: Tally,
    consumers: BTreeMap<Arc<str>, Tally>,
}

/// What happened to events since the last summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Published or applied, this time after the creation of the event.
    Done(TimeDelta),
    /// An attempt failed and will be repeated.
    Retried,
    /// The event was given up: FAILED, or DEAD for a consumer.
    Failed,
}

#[derive(Debug, Default)]
struct Tally {
    done: u64,
    retried: u64,
    failed: u64,
    delays: Distribution,
}

impl Tally {
    fn add(&mut self, happened: Happened) {
        match happened {
            Happened::Done(delay) => {
                self.done += 1;
                self.delays.record(delay);
            }
            Happened::Retried => self.retried += 1,
            Happened::Failed => self.failed += 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.done + self.retried + self.failed == 0
    }

    /// The time that 99 of 100 do not exceed, in milliseconds; 0 without any.
    fn p99_ms(&self) -> u64 {
        let p99 = self.delays.quantile(0.99).unwrap_or_default();
        u64::try_from(p99.as_millis()).unwrap_or(u64::MAX)
    }
}

impl EventSummary {
    /// Switches the summary on.
    pub(crate) fn enable(&self) {
        self.0.is_enabled.store(true, Ordering::Relaxed);
    }

    /// Counts an event of the relay.
    pub(crate) fn relay(&self, happened: Happened) {
        if self.is_enabled() {
            self.counts().relay.add(happened);
        }
    }

    /// Counts an event of a consumer.
    pub(crate) fn consumer(&self, name: &Arc<str>, happened: Happened) {
        if self.is_enabled() {
            self.counts().consumers.entry(Arc::clone(name)).or_default().add(happened);
        }
    }

    fn is_enabled(&self) -> bool {
        self.0.is_enabled.load(Ordering::Relaxed)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the counts since the last call.
    fn log(&self) {
        let Counts { relay, consumers } = std::mem::take(&mut *self.counts());
        if !relay.is_empty() {
            info!(
                code = "summary.relay",
                published = relay.done,
                retried = relay.retried,
                failed = relay.failed,
                p99Ms = relay.p99_ms(),
                "[Summary] relay: {} published, {} retried, {} failed, p99 of commit to confirm {} ms",
                relay.done,
                relay.retried,
                relay.failed,
                relay.p99_ms()
            );
        }
        for (consumer, tally) in &consumers {
            info!(
                code = "summary.consumer",
                consumer = &**consumer,
                applied = tally.done,
                retried = tally.retried,
                failed = tally.failed,
                p99Ms = tally.p99_ms(),
                "[Summary] {consumer}: {} applied, {} retried, {} failed, p99 of commit to effect {} ms",
                tally.done,
                tally.retried,
                tally.failed,
                tally.p99_ms()
            );
        }
    }
}

/// Logs the summary every 10 seconds until the process stops, and the rest when it stops.
pub(crate) async fn keep_logging(summary: EventSummary, tx: Transactor) {
    let stopping = tx.stopping().clone();
    while !stopping.is_cancelled() {
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = tx.sleep(INTERVAL) => {}
        }
        summary.log();
    }
}
