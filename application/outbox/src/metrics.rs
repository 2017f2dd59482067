//! Metric names and counters. Without a metrics recorder, the counters do nothing.
//!
//! **Invariant:** changes made in a unit of work are counted once, after its commit; no id is a label.

use std::cell::RefCell;

use chrono::{DateTime, TimeDelta, Utc};
use metrics::{Counter, Histogram};

use crate::event_line::{EVENT_TARGET, EventFields, event_line};
use crate::ports::{NewEvent, OutboxUnit, StoreError};
use crate::registry::EventSpan;

/// A metric. The list of all metrics gives the help texts of `/metrics` and the reference page; a name is an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name, with dots. Durations are in seconds and end with `seconds`; a histogram with another name counts.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Names of the labels. No id is a label.
    pub labels: &'static [&'static str],
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Counter of one process.
    Counter,
    /// Gauge of one process.
    Gauge,
    /// Histogram of one process, with the buckets [`Metric::buckets`].
    Histogram,
    /// Gauge of the whole deployment, which the process that leads exports ([`crate::state`]).
    State,
}

/// Upper bounds of the buckets of a histogram of durations, in seconds.
pub const BUCKETS: [f64; 16] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];

/// Upper bounds of the buckets of a histogram of counts, for instance of attempts.
pub const COUNT_BUCKETS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 50.0];

impl Metric {
    /// Describes a counter.
    pub const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Counter, labels: &[] }
    }

    /// Describes a gauge.
    pub const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Gauge, labels: &[] }
    }

    /// Describes a histogram.
    pub const fn histogram(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::Histogram, labels: &[] }
    }

    /// Describes a gauge of the whole deployment.
    pub const fn state(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind: MetricKind::State, labels: &[] }
    }

    /// The same metric with these labels.
    #[must_use]
    pub const fn by(self, labels: &'static [&'static str]) -> Metric {
        Metric { labels, ..self }
    }

    /// Upper bounds of the buckets, if the metric is a histogram.
    pub fn buckets(&self) -> &'static [f64] {
        if self.name.ends_with("seconds") { &BUCKETS } else { &COUNT_BUCKETS }
    }

    /// The name in the format of Prometheus.
    pub fn exported_name(&self) -> String {
        let suffix = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}{suffix}", self.name.replace('.', "_"))
    }
}

pub(crate) const CONSUMER: &[&str] = &["consumer"];

pub(crate) const PENDING: Metric =
    Metric::state("outbox.event.pending", "Events that are not published yet (NEW and RETRY)");
pub(crate) const OLDEST_DUE: Metric = Metric::state(
    "handover.outbox.oldest.due.seconds",
    "Time for which the longest due event is not published, in seconds; 0: none",
);

pub(crate) const CREATED: &str = "outbox.event.created";
pub(crate) const SENT: &str = "outbox.event.sent";
pub(crate) const FAILED: &str = "outbox.event.failed";
pub(crate) const DEAD: &str = "outbox.event.dead";
pub(crate) const CONSUMED: &str = "consumer.event.consumed";
pub(crate) const IDEMPOTENT: &str = "consumer.event.idempotent";
pub(crate) const NOT_CONSUMED: &str = "consumer.event.failed";

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

pub(crate) const ARCHIVED: &str = "handover.archive.events";
pub(crate) const ARCHIVE_FILES: &str = "handover.archive.files";
pub(crate) const ARCHIVE_BYTES: &str = "handover.archive.bytes";
pub(crate) const RESTORED: &str = "handover.archive.events.restored";

pub(crate) const RELAY_PARTITIONS: &str = "handover.relay.partitions";
pub(crate) const DELIVERIES: &str = "handover.consumer.deliveries";
pub(crate) const PUBLISH_ATTEMPTS: &str = "handover.publish.attempts";
pub(crate) const CONSUMER_ATTEMPTS: &str = "handover.consumer.attempts";
pub(crate) const PUBLISHES: &str = "handover.publishes";
pub(crate) const PUBLISH_SECONDS: &str = "handover.publish.seconds";
pub(crate) const COMMIT_TO_CONFIRM: &str = "handover.commit.to.confirm.seconds";
pub(crate) const COMMIT_TO_EFFECT: &str = "handover.commit.to.effect.seconds";
pub(crate) const HANDLER_SECONDS: &str = "handover.handler.seconds";

/// Every metric of the outbox and of webhooks, without those of the state ([`crate::state::metrics`]).
pub const METRICS: &[Metric] = &[
    Metric::counter(
        CREATED,
        "Events committed to the outbox by this process; rows inserted by SQL are not counted",
    ),
    Metric::counter(SENT, "Events that the broker confirmed to this process"),
    Metric::counter(FAILED, "Failed publishes of events, including the last one before FAILED"),
    Metric::counter(DEAD, "Events marked as FAILED after their last publish failed"),
    Metric::counter(
        PUBLISHES,
        "Publishes of events by result: confirmed, returned (no queue), refused, unknown (no confirm), unreachable",
    )
    .by(&["result"]),
    Metric::histogram(PUBLISH_SECONDS, "Time from the publish of a group of events to the last confirm or refusal"),
    Metric::histogram(COMMIT_TO_CONFIRM, "Time from the creation of an event to its confirm"),
    Metric::histogram(
        PUBLISH_ATTEMPTS,
        "Attempts that a confirmed event needed, the successful one included; outages are not counted",
    ),
    Metric::gauge(
        RELAY_PARTITIONS,
        "Partitions of the outbox, out of 64, that the relay of this process owns; 0 without a relay",
    ),
    Metric::counter(CONSUMED, "Events applied and committed").by(CONSUMER),
    Metric::counter(IDEMPOTENT, "Ignored deliveries of applied events, and events whose effect already existed")
        .by(CONSUMER),
    Metric::counter(NOT_CONSUMED, "Failed attempts to apply an event, including the last one before DEAD")
        .by(CONSUMER),
    Metric::histogram(
        CONSUMER_ATTEMPTS,
        "Attempts that an applied event needed, the successful one included; outages are not counted",
    )
    .by(CONSUMER),
    Metric::counter(
        DELIVERIES,
        "Deliveries that the consumer settled, by result: acked, requeued (delivered again), rejected (dead-lettered)",
    )
    .by(&["consumer", "result"]),
    Metric::histogram(HANDLER_SECONDS, "Time of a handler for the events of one attempt").by(CONSUMER),
    Metric::histogram(COMMIT_TO_EFFECT, "Time from the creation of an event to the commit of its effect")
        .by(CONSUMER),
    Metric::gauge(
        PAUSED,
        "1 while the breaker of the consumer is open in this process: it tries one event at a time",
    )
    .by(CONSUMER),
    Metric::counter(
        LEFT,
        "Deliveries of a type that the consumer does not handle in this process, left to a process that has registered it",
    )
    .by(CONSUMER),
    Metric::gauge(
        LEFT_AGE,
        "Age of the oldest event that the consumer left to a process that has registered its type, in seconds; 0: none",
    )
    .by(CONSUMER),
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
    Metric::counter(ARCHIVED, "Events that this process moved from the outbox to the archive"),
    Metric::counter(ARCHIVE_FILES, "Files of the archive that this process wrote"),
    Metric::counter(ARCHIVE_BYTES, "Size of these files in bytes"),
    Metric::counter(RESTORED, "Events that this process returned from the archive to the outbox"),
];

tokio::task_local! {
    /// Measurements of the unit of work of this task, recorded after its commit.
    static MEASUREMENTS: RefCell<Vec<Measurement>>;
}

enum Measurement {
    Count(Counter, u64),
    Value(Histogram, f64),
    Other(Box<dyn FnOnce() + Send>),
}

impl Measurement {
    fn record(self) {
        match self {
            Measurement::Count(counter, by) => counter.increment(by),
            Measurement::Value(histogram, value) => histogram.record(value),
            Measurement::Other(record) => record(),
        }
    }
}

/// Runs one attempt at a unit of work and records its measurements if it succeeds.
pub(crate) async fn with_measurements<T, E>(attempt: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let measuring = async {
        let done = attempt.await?;
        MEASUREMENTS.with(RefCell::take).into_iter().for_each(Measurement::record);
        Ok(done)
    };
    MEASUREMENTS.scope(RefCell::default(), measuring).await
}

/// Increments the counter once the current unit of work is committed. Does nothing outside of a unit of work.
pub fn count_on_commit(counter: Counter, by: usize) {
    measure_on_commit(Measurement::Count(counter, u64::try_from(by).unwrap_or(u64::MAX)));
}

/// Records a time once the current unit of work is committed. Does nothing outside of a unit of work.
pub(crate) fn time_on_commit(histogram: Histogram, time: TimeDelta) {
    record_on_commit(histogram, seconds(time));
}

/// Records a value once the current unit of work is committed. Does nothing outside of a unit of work.
pub(crate) fn record_on_commit(histogram: Histogram, value: f64) {
    measure_on_commit(Measurement::Value(histogram, value));
}

/// Runs this once the current unit of work is committed. Does nothing outside of a unit of work.
pub(crate) fn on_commit(record: impl FnOnce() + Send + 'static) {
    measure_on_commit(Measurement::Other(Box::new(record)));
}

fn measure_on_commit(measurement: Measurement) {
    // Outside of a unit of work `try_with` returns an error, and nothing is recorded.
    let _ = MEASUREMENTS.try_with(|measurements| measurements.borrow_mut().push(measurement));
}

/// A time for a histogram; 0 if the clocks of two processes disagree.
pub(crate) fn seconds(time: TimeDelta) -> f64 {
    time.to_std().unwrap_or_default().as_secs_f64()
}

/// Appends events to the outbox; counts and logs them once they are committed.
pub async fn append(unit: &mut dyn OutboxUnit, events: &[NewEvent]) -> Result<(), StoreError> {
    append_logged_in(unit, events, |_| None).await
}

/// As [`append`]; `span` selects the span in which the events of a type are logged ([`EventSpec::logged_in`]).
///
/// [`EventSpec::logged_in`]: crate::EventSpec::logged_in
pub async fn append_logged_in(
    unit: &mut dyn OutboxUnit,
    events: &[NewEvent],
    span: fn(&str) -> Option<EventSpan>,
) -> Result<(), StoreError> {
    unit.append(events).await?;
    count_on_commit(metrics::counter!(CREATED), events.len());
    if tracing::Level::INFO <= tracing::level_filters::LevelFilter::current() {
        let events = events.to_vec();
        on_commit(move || {
            for event in &events {
                event_line!(target: EVENT_TARGET, INFO, EventFields::of_new(event, span(&event.event_type)),
                    code = "outbox.event.appended", "[Outbox] Event appended");
            }
        });
    }
    Ok(())
}

/// Age of this time in whole seconds; 0 without a time, and for one in the future.
pub(crate) fn age_seconds(since: Option<DateTime<Utc>>, now: DateTime<Utc>) -> f64 {
    count(since.map_or(0, |since| (now - since).num_seconds().max(0).unsigned_abs()))
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(crate) fn count(count: u64) -> f64 {
    count as f64
}
