//! What the operators of a market have set, and the process itself: shortened, so that a day fits into a minute.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use handover_events::{Jitter, RetryPolicy};
use handover_outbox::ports::OnFailed;
use handover_outbox::{ConsumerSettings, OnOutage, RelaySettings};
use marketplace::{ConsistencySettings, RefundSettings, Rules, Settings, TimeoutSettings};
use marketplace_domain::PointsRules;

use super::dice::Dice;
use super::ports::store::Flavour;

/// How many attempts a consumer has.
pub(crate) const ATTEMPTS: u32 = 4;
/// How long the relay waits after the first, second and third refusal of an event: all of them fit into the shortest
/// trouble, so that events fail for good while much else goes wrong.
pub(crate) const RELAY_RESTS: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1)];
/// How long a consumer waits after its first failed attempt; twice as long after each further one.
const FIRST_CONSUMER_REST: Duration = Duration::from_millis(200);
/// The longest that it waits.
const LONGEST_CONSUMER_REST: Duration = Duration::from_secs(3);

/// How long a consumer has to wait after so many failed attempts. Reckoned here once more, not asked of [`RetryPolicy`].
pub(crate) fn consumer_rest(attempts: u32) -> Duration {
    let doublings = attempts.clamp(1, 5) - 1;
    (FIRST_CONSUMER_REST * (1 << doublings)).min(LONGEST_CONSUMER_REST)
}

/// What is the same for every process of a run.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) flavour: Flavour,
    pub(crate) on_failed: OnFailed,
    pub(crate) settings: Settings,
    points: PointsRules,
}

impl Setting {
    /// The defaults, shortened; batches small enough to be several.
    pub(crate) fn of(dice: &Dice) -> Setting {
        let second = Duration::from_secs(1);
        let on_failed = if dice.permille(300) { OnFailed::Hold } else { OnFailed::Continue };
        let on_outage = if dice.permille(200) { OnOutage::Count } else { OnOutage::Wait };
        let upto = |n: u64| u32::try_from(dice.below(n)).unwrap_or(0);
        let settings = Settings {
            relay: RelaySettings {
                retry: RetryPolicy::Schedule { delays: RELAY_RESTS.to_vec() },
                on_failed,
                on_outage,
                lease_ms: 2_000,
                confirm_timeout: second * 4,
                scan_interval: second * 3,
                batch: NonZeroU32::MIN.saturating_add(upto(20)),
                ..RelaySettings::default()
            },
            consumer: ConsumerSettings {
                prefetch: NonZeroU16::MIN.saturating_add(u16::try_from(upto(20)).unwrap_or(0)),
                retry: RetryPolicy::Exponential {
                    base: FIRST_CONSUMER_REST,
                    cap: LONGEST_CONSUMER_REST,
                    max_attempts: NonZeroU32::new(ATTEMPTS).unwrap_or(NonZeroU32::MIN),
                    jitter: Jitter::NONE,
                },
                attempt_timeout: second * 4,
                lease: second * 6,
                sweep_interval: second * 4,
                lost_after: second * 6,
            },
            timeout: TimeoutSettings { sweep_interval: second * 4, ..TimeoutSettings::default() },
            refund: RefundSettings {
                scan_interval: second,
                batch: NonZeroU32::MIN.saturating_add(upto(4)),
                timeout: second * 3,
                retry_base: second,
                retry_cap: second * 4,
            },
            // Some days end locks before the deadline of their order does, some after it.
            consistency: ConsistencySettings {
                lock_timeout: second * (3 + upto(5)),
                reaper_interval: second * (1 + upto(4)),
                scan_window: second * 60,
                scan_interval: second * (4 + upto(8)),
                batch: NonZeroU32::MIN.saturating_add(1 + upto(8)),
            },
        };
        let flavour = if dice.permille(500) { Flavour::MariaDb } else { Flavour::Postgres };
        // Where much is earned, some of it is spent before it is taken back.
        let earned_per_unit = if dice.permille(300) { 50 } else { 1 };
        let points = PointsRules { earned_per_unit, ..PointsRules::default() };
        Setting { flavour, on_failed, settings, points }
    }

    /// The rules of the market.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            pending_timeout: Duration::from_secs(5),
            max_retry_count: u32::try_from(RELAY_RESTS.len()).unwrap_or(u32::MAX),
            on_failed: self.on_failed,
            points: self.points,
        }
    }
}
