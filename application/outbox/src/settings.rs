//! Settings of relay and consumers, with their defaults. The configuration checks the ranges.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use handover_events::RetryPolicy;

/// Effect of a broker outage on the events being published (`outbox.outage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOutage {
    /// The events stay in the outbox, and a publish that fails because of the outage does not count as an attempt.
    #[default]
    Wait,
    /// The outage counts as a failed attempt of each event.
    Count,
}

/// Settings of the relay.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// Maximum number of rows per window (`outbox.batch`). Fewer are read while payloads are long.
    pub batch: NonZeroU32,
    /// Longest time between two polls (`outbox.scan-interval`).
    pub scan_interval: Duration,
    /// Maximum number of ready messages up to which the relay fills a queue while a few groups of events have a backlog, or are
    /// faster than all consumers of their queues; 0: it publishes as fast as it can (`outbox.max-queued`).
    pub max_queued: u32,
    /// Retry policy for failed publishes (`outbox.retry`).
    pub retry: RetryPolicy,
    /// Effect of a broker outage (`outbox.outage`).
    pub on_outage: OnOutage,
    /// Length of a partition lease in milliseconds; renewed after a third of it.
    pub lease_ms: u32,
    /// Longest time that the relay waits for the confirms of a window; after that, their outcome counts as unknown. It is
    /// twice as long for a window that is published beside another one, because a broker may publish one after the other.
    pub confirm_timeout: Duration,
    /// Longest pause between two probes of an unreachable broker or database.
    pub probe_cap: Duration,
    /// If a search for due rows takes longer, or fails after a longer time, later ones begin at the lowest id that was due
    /// recently, and concurrent ones, with `scan_interval` between them, read everything.
    pub slow_search: Duration,
}

impl Default for RelaySettings {
    fn default() -> Self {
        RelaySettings {
            batch: NonZeroU32::MIN.saturating_add(199),
            scan_interval: Duration::from_secs(5),
            max_queued: 1_000,
            retry: RetryPolicy::outbox_default(),
            on_outage: OnOutage::Wait,
            lease_ms: 5_000,
            confirm_timeout: Duration::from_secs(10),
            probe_cap: Duration::from_secs(2),
            slow_search: Duration::from_millis(10),
        }
    }
}

/// Settings of all consumers. A [`Subscriber`](crate::consumers::Subscriber) can have [its own](OwnSettings).
#[derive(Debug, Clone)]
pub struct ConsumerSettings {
    /// Maximum number of unsettled deliveries of each consumer (`consumer.prefetch`).
    pub prefetch: NonZeroU16,
    /// Retry policy for failed attempts (`consumer.backoff`, `consumer.retry-threshold`).
    pub retry: RetryPolicy,
    /// Longest duration of one attempt.
    pub attempt_timeout: Duration,
    /// Time for which a crashed attempt blocks other attempts to apply its event; longer than `attempt_timeout`
    /// (`consumer.lease`).
    pub lease: Duration,
    /// Interval of the sweep for unsettled and lost events.
    pub sweep_interval: Duration,
    /// Time after which a confirmed event that was not delivered counts as lost by the broker.
    pub lost_after: Duration,
    /// Number of aggregates in a row whose events fail with the same kind of error, after which the consumer pauses and
    /// tries one event at a time; 0: it never pauses (`consumer.breaker`).
    pub breaker: u32,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        ConsumerSettings {
            prefetch: NonZeroU16::MIN.saturating_add(19),
            retry: RetryPolicy::consumer(Duration::from_millis(200), Duration::from_secs(5), 3),
            attempt_timeout: Duration::from_secs(10),
            lease: Duration::from_secs(15),
            sweep_interval: Duration::from_secs(5),
            lost_after: Duration::from_secs(60),
            breaker: 10,
        }
    }
}

/// Settings of one consumer that differ from those of all consumers.
#[derive(Debug, Clone, Default)]
pub struct OwnSettings {
    /// See [`ConsumerSettings::prefetch`].
    pub prefetch: Option<NonZeroU16>,
    /// See [`ConsumerSettings::retry`].
    pub retry: Option<RetryPolicy>,
    /// See [`ConsumerSettings::attempt_timeout`]. The lease is extended by the same time.
    pub attempt_timeout: Option<Duration>,
    /// The order in which the consumer applies the events of one aggregate.
    pub order: ConsumeOrder,
}

/// The order in which a consumer applies the events of one aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsumeOrder {
    /// In their sequence, except for event types that are registered as unordered.
    #[default]
    Sequence,
    /// In any order, also at the same time: a failed or slow event delays no other.
    Any,
}

impl ConsumerSettings {
    /// The settings of a consumer with these settings of its own.
    pub(crate) fn with(&self, own: &OwnSettings) -> ConsumerSettings {
        let attempt_timeout = own.attempt_timeout.unwrap_or(self.attempt_timeout);
        ConsumerSettings {
            prefetch: own.prefetch.unwrap_or(self.prefetch),
            retry: own.retry.clone().unwrap_or_else(|| self.retry.clone()),
            attempt_timeout,
            lease: attempt_timeout + self.lease.saturating_sub(self.attempt_timeout),
            ..self.clone()
        }
    }
}
