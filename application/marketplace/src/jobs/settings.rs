//! Settings of the jobs with their defaults. Values are validated where the configuration is read.

use std::num::NonZeroU32;
use std::time::Duration;

use marketplace_domain::BillingPeriod;

/// Settings of the sweep that closes overdue orders whose timeout message is late or lost.
#[derive(Debug, Clone)]
pub struct TimeoutSettings {
    /// Interval (`order.timeout.sweep-interval`).
    pub sweep_interval: Duration,
    /// Maximum number of orders per batch (`order.timeout.sweep-batch`).
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

/// Settings of the automatic completion of shipped orders.
#[derive(Debug, Clone)]
pub struct AutoCompletionSettings {
    /// Time after the shipment (`order.auto-complete-days`); `None`: orders are never completed automatically.
    pub after: Option<Duration>,
    pub interval: Duration,
    /// Maximum number of orders per batch.
    pub batch: NonZeroU32,
}

impl AutoCompletionSettings {
    /// Settings for this time after the shipment. The job runs every minute, or more often if the time is short.
    pub fn new(after: Option<Duration>) -> AutoCompletionSettings {
        let interval = after.map_or(Self::MAX_INTERVAL, |after| after / 10);
        AutoCompletionSettings {
            after,
            interval: interval.clamp(Self::MIN_INTERVAL, Self::MAX_INTERVAL),
            batch: NonZeroU32::MIN.saturating_add(199),
        }
    }

    const MIN_INTERVAL: Duration = Duration::from_millis(100);
    const MAX_INTERVAL: Duration = Duration::from_secs(60);
}

impl Default for AutoCompletionSettings {
    fn default() -> Self {
        AutoCompletionSettings::new(Some(Duration::from_secs(10 * 24 * 3600)))
    }
}

/// Settings of the generation of invoices.
#[derive(Debug, Clone)]
pub struct InvoiceSettings {
    /// First month that is invoiced (`invoice.from`); `None`: [`first_invoice_period`].
    ///
    /// [`first_invoice_period`]: crate::ports::InvoiceQueries::first_invoice_period
    pub from: Option<BillingPeriod>,
    /// Time between the end of a month and its invoices (`invoice.generate-after`).
    pub generate_after: Duration,
    pub interval: Duration,
}

impl InvoiceSettings {
    /// Settings for this time after the end of a month. The job runs every hour, or more often if the time is short.
    pub fn new(from: Option<BillingPeriod>, generate_after: Duration) -> InvoiceSettings {
        let interval = (generate_after / 10).clamp(Self::MIN_INTERVAL, Self::MAX_INTERVAL);
        InvoiceSettings { from, generate_after, interval }
    }

    const MIN_INTERVAL: Duration = Duration::from_secs(1);
    const MAX_INTERVAL: Duration = Duration::from_secs(3600);
}

impl Default for InvoiceSettings {
    fn default() -> Self {
        InvoiceSettings::new(None, Duration::from_secs(3 * 24 * 3600))
    }
}

/// Settings of the refund dispatcher.
#[derive(Debug, Clone)]
pub struct RefundSettings {
    /// Interval (`gateway.scan-interval`).
    pub scan_interval: Duration,
    /// Maximum number of concurrent requests of a process.
    pub concurrency: NonZeroU32,
    /// Timeout of one request (`gateway.timeout`).
    pub timeout: Duration,
    /// Delay before the second request for a refund without a report. It doubles with each further request
    /// (`gateway.retry-base`).
    pub retry_base: Duration,
    /// Maximum delay (`gateway.retry-cap`).
    pub retry_cap: Duration,
}

impl Default for RefundSettings {
    fn default() -> Self {
        RefundSettings {
            scan_interval: Duration::from_secs(1),
            concurrency: NonZeroU32::MIN.saturating_add(7),
            timeout: Duration::from_secs(10),
            retry_base: Duration::from_secs(5),
            retry_cap: Duration::from_secs(3600),
        }
    }
}

/// Settings of the lock reaper and the continuous reconciliation.
#[derive(Debug, Clone)]
pub struct ConsistencySettings {
    /// Age at which the reaper processes a lock (`asset.lock-timeout-minutes`).
    pub lock_timeout: Duration,
    /// Interval of the reaper (`asset.reaper-interval`).
    pub reaper_interval: Duration,
    /// Orders that changed this long ago count as settled and are compared, at this interval (`consistency.recent-interval`).
    pub recent_interval: Duration,
    /// All orders that changed within this time are compared (`consistency.scan-window-hours`).
    pub scan_window: Duration,
    /// Interval of that comparison (`consistency.interval`).
    pub scan_interval: Duration,
    /// Maximum number of holds, coupons or orders per batch.
    pub batch: NonZeroU32,
}

impl Default for ConsistencySettings {
    fn default() -> Self {
        ConsistencySettings {
            lock_timeout: Duration::from_secs(30 * 60),
            reaper_interval: Duration::from_secs(5 * 60),
            recent_interval: Duration::from_secs(60),
            scan_window: Duration::from_secs(24 * 3600),
            scan_interval: Duration::from_secs(2 * 3600),
            batch: NonZeroU32::MIN.saturating_add(199),
        }
    }
}
