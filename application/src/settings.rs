//! How the relay, the consumers and the jobs behave. Every limit has its default here and a check where it is read.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use handover_domain::RetryPolicy;

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

/// The sweep that closes overdue orders whose message is late or lost.
#[derive(Debug, Clone)]
pub struct TimeoutSettings {
    /// How often it looks (`order.timeout.sweep-interval`).
    pub sweep_interval: Duration,
    /// How many orders it closes at a time (`order.timeout.sweep-batch`).
    pub sweep_batch: NonZeroU32,
}

impl Default for TimeoutSettings {
    fn default() -> Self {
        TimeoutSettings {
            sweep_interval: Duration::from_secs(30),
            sweep_batch: NonZeroU32::MIN.saturating_add(199),
        }
    }
}

/// How the payment gateway is asked to pay back.
#[derive(Debug, Clone)]
pub struct RefundSettings {
    /// How often refunds that are due are looked for (`gateway.scan-interval`).
    pub scan_interval: Duration,
    /// How many are asked for at a time.
    pub batch: NonZeroU32,
    /// How long one call may take (`gateway.timeout`).
    pub timeout: Duration,
    /// The pause before the gateway is asked a second time about a refund of which it has reported nothing; doubled with
    /// each time (`gateway.retry-base`).
    pub retry_base: Duration,
    /// The longest such pause (`gateway.retry-cap`).
    pub retry_cap: Duration,
}

impl Default for RefundSettings {
    fn default() -> Self {
        RefundSettings {
            scan_interval: Duration::from_secs(1),
            batch: NonZeroU32::MIN.saturating_add(49),
            timeout: Duration::from_secs(10),
            retry_base: Duration::from_secs(5),
            retry_cap: Duration::from_secs(3600),
        }
    }
}

/// What keeps assets and events in step with the orders (seed 004).
#[derive(Debug, Clone)]
pub struct ConsistencySettings {
    /// Locks older than this are looked at (`asset.lock-timeout-minutes`).
    pub lock_timeout: Duration,
    /// How often (`asset.reaper-interval`).
    pub reaper_interval: Duration,
    /// Orders that changed within this time are looked at for missing events (`consistency.scan-window-hours`).
    pub scan_window: Duration,
    /// How often (`consistency.interval`).
    pub scan_interval: Duration,
    /// How many holds or orders are read at a time.
    pub batch: NonZeroU32,
}

impl Default for ConsistencySettings {
    fn default() -> Self {
        ConsistencySettings {
            lock_timeout: Duration::from_secs(30 * 60),
            reaper_interval: Duration::from_secs(5 * 60),
            scan_window: Duration::from_secs(24 * 3600),
            scan_interval: Duration::from_secs(2 * 3600),
            batch: NonZeroU32::MIN.saturating_add(199),
        }
    }
}

/// The settings of everything that runs by itself.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The relay's.
    pub relay: RelaySettings,
    /// The consumers'.
    pub consumer: ConsumerSettings,
    /// The timeout sweep's.
    pub timeout: TimeoutSettings,
    /// The refunds'.
    pub refund: RefundSettings,
    /// The reaper's and the repair's.
    pub consistency: ConsistencySettings,
}
