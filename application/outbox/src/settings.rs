//! How the relay and the consumers behave. Every limit has its default here and a check where it is read.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use handover_events::RetryPolicy;

use crate::ports::OnFailed;

/// What a broker that is away means for the events being sent (`outbox.outage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOutage {
    /// Nothing: they wait, and no attempt is spent.
    #[default]
    Wait,
    /// A failed attempt of each (000 to the letter).
    Count,
}

/// The relay's settings.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// Rows in a window (`outbox.batch`).
    pub batch: NonZeroU32,
    /// The longest it sleeps without looking (`outbox.scan-interval`).
    pub scan_interval: Duration,
    /// When a failed publish is tried again (`outbox.retry`).
    pub retry: RetryPolicy,
    /// What a FAILED row means for its aggregate (`outbox.on-failed`).
    pub on_failed: OnFailed,
    /// What an outage means (`outbox.outage`).
    pub on_outage: OnOutage,
    /// How long a partition is leased, in milliseconds; renewed at a third.
    pub lease_ms: u32,
    /// How long it waits for the confirms of a window before their outcome is unknown.
    pub confirm_timeout: Duration,
    /// The longest pause between probes of a broker that is away.
    pub probe_cap: Duration,
}

impl Default for RelaySettings {
    fn default() -> Self {
        RelaySettings {
            batch: NonZeroU32::MIN.saturating_add(199),
            scan_interval: Duration::from_secs(5),
            retry: RetryPolicy::outbox_default(),
            on_failed: OnFailed::Continue,
            on_outage: OnOutage::Wait,
            lease_ms: 5_000,
            confirm_timeout: Duration::from_secs(10),
            probe_cap: Duration::from_secs(2),
        }
    }
}

/// The settings of every consumer.
#[derive(Debug, Clone)]
pub struct ConsumerSettings {
    /// Unsettled deliveries at a time (`consumer.prefetch`).
    pub prefetch: NonZeroU16,
    /// When a failed attempt is made again and when it is the last (`consumer.backoff`, `consumer.retry-threshold`).
    pub retry: RetryPolicy,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// How long a counted attempt is its worker's; longer than `attempt_timeout`.
    pub lease: Duration,
    /// How often leftovers and lost events are looked for.
    pub sweep_interval: Duration,
    /// How long a confirmed event may be on its way before it counts as lost by the broker.
    pub lost_after: Duration,
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
        }
    }
}
