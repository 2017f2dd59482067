//! How the jobs behave. Every limit has its default here and a check where it is read.

use std::num::NonZeroU32;
use std::time::Duration;

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
