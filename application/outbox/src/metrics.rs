//! Metric names and counters. Without a metrics recorder, the counters do nothing.
//!
//! **Invariant:** changes made in a unit of work are counted once, after its commit; no id is a label.

use std::cell::RefCell;

use metrics::Counter;

use crate::ports::{NewEvent, OutboxUnit, StoreError};

/// A metric: name, help text and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name, with dots.
    pub name: &'static str,
    /// Help text for the metrics endpoint.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: MetricKind,
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Counter without labels.
    Counter,
    /// Counter with the label `consumer`.
    CounterOfConsumer,
    /// Gauge: the value at the last sample.
    Gauge,
    /// Gauge with the label `consumer`.
    GaugeOfConsumer,
}

impl Metric {
    /// Describes a counter.
    pub const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Counter }
    }

    /// Describes a gauge.
    pub const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Gauge }
    }
}

const fn counter_of_consumer(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind: MetricKind::CounterOfConsumer }
}

pub(crate) const CREATED: &str = "outbox.event.created";
pub(crate) const SENT: &str = "outbox.event.sent";
pub(crate) const FAILED: &str = "outbox.event.failed";
pub(crate) const DEAD: &str = "outbox.event.dead";
pub(crate) const PENDING: &str = "outbox.event.pending";
pub(crate) const CONSUMED: &str = "consumer.event.consumed";
pub(crate) const IDEMPOTENT: &str = "consumer.event.idempotent";
pub(crate) const NOT_CONSUMED: &str = "consumer.event.failed";

pub(crate) const OLDEST_DUE: &str = "handover.outbox.oldest.due.seconds";
pub(crate) const PAUSED: &str = "handover.consumer.paused";
pub(crate) const LEFT: &str = "handover.consumer.left";
pub(crate) const LEFT_AGE: &str = "handover.consumer.left.age.seconds";

pub(crate) const WEBHOOK_DELIVERED: &str = "handover.webhook.delivered";
pub(crate) const WEBHOOK_FAILED: &str = "handover.webhook.failed";
pub(crate) const WEBHOOK_INTERRUPTED: &str = "handover.webhook.interrupted";
pub(crate) const WEBHOOK_NOT_SIGNED: &str = "handover.webhook.not.signed";
pub(crate) const WEBHOOK_DEAD: &str = "handover.webhook.dead";
pub(crate) const WEBHOOK_FAILING: &str = "handover.webhook.endpoint.failing";
pub(crate) const WEBHOOK_DISABLED: &str = "handover.webhook.endpoint.disabled";
/// Gauge of pending deliveries.
pub const WEBHOOK_PENDING: &str = "handover.webhook.deliveries.pending";
/// Gauge of `DEAD` deliveries that nobody sent again.
pub const WEBHOOK_UNDELIVERED: &str = "handover.webhook.deliveries.dead";
/// Gauge of disabled endpoints.
pub const WEBHOOK_DISABLED_ENDPOINTS: &str = "handover.webhook.endpoints.disabled";
/// Gauge of the age of the longest due delivery.
pub const WEBHOOK_OLDEST_DUE: &str = "handover.webhook.oldest.due.seconds";

/// Every metric of webhooks. The caller sets the gauges: this crate does not sample the tables.
pub const WEBHOOK_METRICS: [Metric; 11] = [
    Metric::counter(WEBHOOK_DELIVERED, "Attempts at webhook deliveries that the receiver answered with 2xx"),
    Metric::counter(WEBHOOK_FAILED, "Failed attempts at webhook deliveries"),
    Metric::counter(
        WEBHOOK_INTERRUPTED,
        "Attempts at webhook deliveries that the end of the process interrupted",
    ),
    Metric::counter(
        WEBHOOK_NOT_SIGNED,
        "Webhook deliveries that were not sent because this process cannot decrypt the secrets of their endpoint",
    ),
    Metric::counter(WEBHOOK_DEAD, "Webhook deliveries marked as DEAD after their last attempt failed"),
    Metric::counter(WEBHOOK_FAILING, "Webhook endpoints whose last 4 attempts failed"),
    Metric::counter(WEBHOOK_DISABLED, "Webhook endpoints that were disabled automatically"),
    Metric::gauge(WEBHOOK_PENDING, "Webhook deliveries that are pending"),
    Metric::gauge(WEBHOOK_UNDELIVERED, "DEAD webhook deliveries that nobody sent again"),
    Metric::gauge(WEBHOOK_DISABLED_ENDPOINTS, "Webhook endpoints that are disabled"),
    Metric::gauge(
        WEBHOOK_OLDEST_DUE,
        "Age of the longest due webhook delivery of an enabled endpoint, in seconds; 0: none",
    ),
];

/// Every metric of the outbox. [`start_gauges`](crate::runtime::start_gauges) sets the gauges without labels.
pub const METRICS: [Metric; 12] = [
    Metric::counter(
        CREATED,
        "Events committed to the outbox by this process; rows inserted by SQL are not counted",
    ),
    Metric::counter(SENT, "Events that the broker confirmed to this process"),
    Metric::counter(FAILED, "Failed publishes of events, including the last one before FAILED"),
    Metric::counter(DEAD, "Events marked as FAILED after their last publish failed"),
    Metric::gauge(PENDING, "Events that are not published yet (NEW and RETRY)"),
    Metric::gauge(OLDEST_DUE, "Time for which the longest due event is not published, in seconds; 0: none"),
    counter_of_consumer(CONSUMED, "Events applied and committed"),
    counter_of_consumer(
        IDEMPOTENT,
        "Ignored deliveries of applied events, and events whose effect already existed",
    ),
    counter_of_consumer(
        NOT_CONSUMED,
        "Failed attempts to apply an event, including the last one before DEAD",
    ),
    Metric {
        name: PAUSED,
        help: "1 while the breaker of the consumer is open in this process: it tries one event at a time",
        kind: MetricKind::GaugeOfConsumer,
    },
    counter_of_consumer(
        LEFT,
        "Deliveries of a type that the consumer does not handle in this process, left to a process that has registered it",
    ),
    Metric {
        name: LEFT_AGE,
        help: "Age of the oldest event that the consumer left to a process that has registered its type, in seconds; 0: none",
        kind: MetricKind::GaugeOfConsumer,
    },
];

tokio::task_local! {
    /// Counters to increment once the unit of work of this task is committed.
    static PENDING_COUNTERS: RefCell<Vec<(Counter, u64)>>;
}

/// Runs one attempt at a unit of work and increments its counters if it succeeds.
pub(crate) async fn with_pending_counters<T, E>(attempt: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let counting = async {
        let done = attempt.await?;
        for (counter, by) in PENDING_COUNTERS.with(RefCell::take) {
            counter.increment(by);
        }
        Ok(done)
    };
    PENDING_COUNTERS.scope(RefCell::default(), counting).await
}

/// Increments the counter once the current unit of work is committed. Does nothing outside of a unit of work.
pub fn count_on_commit(counter: Counter, by: usize) {
    let by = u64::try_from(by).unwrap_or(u64::MAX);
    // Outside of a unit of work `try_with` returns an error, and nothing is counted.
    let _ = PENDING_COUNTERS.try_with(|counters| counters.borrow_mut().push((counter, by)));
}

/// Appends events to the outbox and counts them once they are committed.
pub async fn append(unit: &mut dyn OutboxUnit, events: &[NewEvent]) -> Result<(), StoreError> {
    unit.append(events).await?;
    count_on_commit(metrics::counter!(CREATED), events.len());
    Ok(())
}
