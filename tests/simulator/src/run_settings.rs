//! Configuration of the processes of a run. Times are short, so that retries and timeouts happen within the fault
//! phase.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use handover_events::{Jitter, RetryPolicy};
use handover_outbox::ports::OnFailed;
use handover_outbox::webhooks::WebhookSettings;
use handover_outbox::{ConsumerSettings, OnOutage, RelaySettings};
use marketplace::{
    AutoCompletionSettings, ConsistencySettings, InvoiceSettings, RefundSettings, Rules, Settings,
    TimeoutSettings,
};
use marketplace_domain::{FeeRate, PointsRules};

use super::random_numbers::RandomNumbers;

/// Maximum number of attempts of a consumer.
pub(crate) const ATTEMPTS: u32 = 4;
/// Backoff of the relay after the first, second and third refusal of an event. Their sum fits into the shortest fault
/// phase, so that events become FAILED while other faults occur.
pub(crate) const RELAY_BACKOFF: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1)];
/// Backoff of a consumer after its first failed attempt; doubles with each further one.
const CONSUMER_BACKOFF_BASE: Duration = Duration::from_millis(200);
/// Maximum backoff of a consumer.
const CONSUMER_BACKOFF_CAP: Duration = Duration::from_secs(3);

/// Time for which published events stay in the outbox of a run with an archive: longer than a call is repeated, stalls and wrong
/// clocks included.
pub(crate) const RETENTION: Duration = Duration::from_secs(30);
/// Longest time for which all processes of such a run are down: the events from before leave the outbox afterwards.
pub(crate) const MAX_DOWNTIME: Duration = Duration::from_secs(50);
/// Interval of the archive job.
pub(crate) const ARCHIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Share of the runs with an archive, in thousandths: they have twice the length.
const ARCHIVED_PERMILLE: u64 = 150;

/// Backoff of a consumer after the given number of failed attempts. It is computed independently of [`RetryPolicy`],
/// which it verifies.
pub(crate) fn consumer_backoff(attempts: u32) -> Duration {
    let doublings = attempts.clamp(1, 5) - 1;
    (CONSUMER_BACKOFF_BASE * (1 << doublings)).min(CONSUMER_BACKOFF_CAP)
}

/// Behaviour of a transaction after one of its statements failed. With either engine the port refuses the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineFlavour {
    /// Further statements succeed: a lock timeout rolls back only its statement, and the adapter refuses the COMMIT.
    MariaDb,
    /// All further statements of the transaction fail.
    Postgres,
}

/// Configuration shared by all processes of a run.
#[derive(Clone)]
pub(crate) struct RunSettings {
    pub(crate) flavour: EngineFlavour,
    pub(crate) on_failed: OnFailed,
    pub(crate) settings: Settings,
    pub(crate) webhook: WebhookSettings,
    /// Whether the run has orders to invoice: their events double its length, so that most runs have none.
    pub(crate) has_invoices: bool,
    /// Whether settled events leave the outbox.
    pub(crate) has_archive: bool,
    points: PointsRules,
}

impl RunSettings {
    /// The defaults with shorter times, and with small batches, so that a run has several batches.
    pub(crate) fn of(random: &RandomNumbers, of_archive: &RandomNumbers) -> RunSettings {
        let second = Duration::from_secs(1);
        let on_failed = if random.permille(300) { OnFailed::Hold } else { OnFailed::Continue };
        let on_outage = if random.permille(200) { OnOutage::Count } else { OnOutage::Wait };
        let below = |n: u64| u32::try_from(random.below(n)).unwrap_or(0);
        // Locks time out before or after the payment deadline of their order, depending on the run.
        let lock_timeout = second * (3 + below(5));
        // In some runs, orders are never completed automatically.
        let auto_complete_after = Some(lock_timeout).filter(|time| time.as_secs() % 2 == 1);
        let batch = NonZeroU32::MIN.saturating_add(below(20));
        let mut settings = Settings {
            relay: RelaySettings {
                retry: RetryPolicy::Schedule { delays: RELAY_BACKOFF.to_vec() },
                on_outage,
                lease_ms: 2_000,
                confirm_timeout: second * 4,
                scan_interval: second * 3,
                batch,
                // In a third of the runs, the queues are not kept short.
                max_queued: batch.get() % 3 * 10,
                // In half of the runs, every search begins at the mark.
                slow_search: if random.permille(500) { Duration::ZERO } else { second },
                ..RelaySettings::default()
            },
            consumer: ConsumerSettings {
                prefetch: NonZeroU16::MIN.saturating_add(u16::try_from(below(20)).unwrap_or(0)),
                retry: RetryPolicy::Exponential {
                    base: CONSUMER_BACKOFF_BASE,
                    cap: CONSUMER_BACKOFF_CAP,
                    max_attempts: NonZeroU32::new(ATTEMPTS).unwrap_or(NonZeroU32::MIN),
                    jitter: Jitter::NONE,
                },
                attempt_timeout: second * 4,
                lease: second * 6,
                sweep_interval: second * 4,
                lost_after: second * 6,
                ..ConsumerSettings::default()
            },
            timeout: TimeoutSettings { sweep_interval: second * 4, ..TimeoutSettings::default() },
            auto_completion: AutoCompletionSettings {
                interval: second,
                batch: NonZeroU32::MIN.saturating_add(1),
                ..AutoCompletionSettings::new(auto_complete_after)
            },
            invoices: InvoiceSettings::default(),
            refund: RefundSettings {
                scan_interval: second,
                concurrency: NonZeroU32::MIN.saturating_add(below(4)),
                timeout: second * 3,
                retry_base: second,
                retry_cap: second * 4,
            },
            consistency: ConsistencySettings {
                lock_timeout,
                reaper_interval: second * (1 + below(4)),
                recent_interval: second * (10 + below(10)),
                scan_window: second * 60,
                scan_interval: second * (4 + below(8)),
                batch: NonZeroU32::MIN.saturating_add(1 + below(8)),
            },
        };
        let flavour = if random.permille(500) { EngineFlavour::MariaDb } else { EngineFlavour::Postgres };
        // With a high rate, buyers spend earned points before a refund revokes them.
        let earned_per_unit = if random.permille(600) { 50 } else { 1 };
        // With a low number, the breaker opens for poisoned events.
        settings.consumer.breaker = if random.permille(300) { 2 + below(3) } else { 10 };
        let points = PointsRules { earned_per_unit, ..PointsRules::default() };
        let webhook = webhook_settings(random);
        let has_invoices = random.permille(300);
        let has_archive = of_archive.permille(ARCHIVED_PERMILLE);
        if has_archive {
            // Processes are down twice: during the faults, and at the end until events can be archived.
            settings.consistency.scan_window += MAX_DOWNTIME * 2;
        }
        RunSettings { flavour, on_failed, settings, webhook, has_invoices, has_archive, points }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            pending_timeout: Duration::from_secs(5),
            max_retry_count: u32::try_from(RELAY_BACKOFF.len()).unwrap_or(u32::MAX),
            points: self.points,
            fee_rate: FeeRate::DEFAULT,
        }
    }
}

/// Settings of the webhook dispatcher. In some runs the time limit of an attempt is longer than the time that requests get
/// when a process stops, so that attempts are interrupted.
fn webhook_settings(random: &RandomNumbers) -> WebhookSettings {
    let attempts = u32::try_from(random.below(3)).unwrap_or(0) + 2;
    WebhookSettings {
        scan_interval: Duration::from_millis(1_500),
        concurrency: NonZeroU32::MIN.saturating_add(u32::try_from(random.below(8)).unwrap_or(0)),
        timeout: Duration::from_secs(if random.permille(500) { 3 } else { 8 }),
        delays: (1..=attempts).map(|number| Duration::from_millis(250) * number).collect(),
        max_retry_count: u32::try_from(RELAY_BACKOFF.len()).unwrap_or(u32::MAX),
    }
}
