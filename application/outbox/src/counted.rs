//! What is counted (004 "Monitoring"): names and what they mean. Where nothing collects metrics, counting costs nothing.
//!
//! **Invariant:** what belongs to a unit of work is counted when that unit is committed, and once; no id is a label.

use std::cell::RefCell;

use metrics::Counter;

use crate::ports::{NewEvent, OutboxUnit, StoreError};

/// A metric, by its name and what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// As 004 names it, with dots.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How it is kept.
    pub kind: MetricKind,
}

/// How a metric is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It only grows, for each consumer (`consumer`).
    CounterOfConsumer,
    /// It is what it was when somebody last looked.
    Gauge,
}

impl Metric {
    /// A counter.
    pub const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Counter }
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Gauge }
    }
}

const fn of_consumer(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind: MetricKind::CounterOfConsumer }
}

pub(crate) const CREATED: &str = "outbox.event.created";
pub(crate) const SENT: &str = "outbox.event.sent";
pub(crate) const FAILED: &str = "outbox.event.failed";
pub(crate) const DEAD: &str = "outbox.event.dead";
/// The gauge of events that wait.
pub const PENDING: &str = "outbox.event.pending";
pub(crate) const CONSUMED: &str = "consumer.event.consumed";
pub(crate) const IDEMPOTENT: &str = "consumer.event.idempotent";
pub(crate) const NOT_CONSUMED: &str = "consumer.event.failed";

/// Every metric of the outbox. [`PENDING`] is for whoever serves to set.
pub const METRICS: [Metric; 8] = [
    Metric::counter(
        CREATED,
        "Events committed to the outbox by this process; rows that others insert by SQL are not counted",
    ),
    Metric::counter(SENT, "Events that the broker confirmed to this process"),
    Metric::counter(FAILED, "Failed publishes of events, given-up ones included"),
    Metric::counter(DEAD, "Events given up after their last publish failed (FAILED)"),
    Metric::gauge(PENDING, "Events that wait in the outbox (NEW and RETRY)"),
    of_consumer(CONSUMED, "Events applied, each with the commit of what it did"),
    of_consumer(IDEMPOTENT, "Deliveries of events that were applied before, ignored"),
    of_consumer(NOT_CONSUMED, "Failed attempts at events, given-up ones included"),
];

tokio::task_local! {
    /// What the unit of work that runs in this task will have done once it is committed.
    static TALLY: RefCell<Vec<(Counter, u64)>>;
}

/// Runs one attempt at a unit of work. What it counts on the way counts if it ends well.
pub(crate) async fn tallied<T, E>(attempt: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let counting = async {
        let done = attempt.await?;
        for (counter, by) in TALLY.with(RefCell::take) {
            counter.increment(by);
        }
        Ok(done)
    };
    TALLY.scope(RefCell::default(), counting).await
}

/// Counts once the unit of work that runs here is committed; nothing outside of one.
pub fn when_committed(counter: Counter, by: usize) {
    let by = u64::try_from(by).unwrap_or(u64::MAX);
    // An error means that there is no unit.
    let _ = TALLY.try_with(|tally| tally.borrow_mut().push((counter, by)));
}

/// Appends events to the outbox, and counts them once they are committed.
pub async fn append(unit: &mut dyn OutboxUnit, events: &[NewEvent]) -> Result<(), StoreError> {
    unit.append(events).await?;
    when_committed(metrics::counter!(CREATED), events.len());
    Ok(())
}
