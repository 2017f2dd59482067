//! When a failed attempt is made again, and when it is the last.

use std::num::NonZeroU32;
use std::time::Duration;

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this long.
    After(Duration),
    /// That was the last attempt.
    GiveUp,
}

/// How long to wait after which failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryPolicy {
    /// One fixed delay per failure; the failure after the last delay is final (000 §7.3: 5 s, 30 s, 2 min, FAILED).
    Schedule {
        /// The delays, in order.
        delays: Vec<Duration>,
    },
    /// `base`, doubled with each failure up to `cap`, shortened by chance; failure number `max_attempts` is final (003, 004).
    Exponential {
        /// The delay after the first failure.
        base: Duration,
        /// No delay is longer.
        cap: Duration,
        /// How many attempts there are in all.
        max_attempts: NonZeroU32,
        /// How much of a delay chance may take away.
        jitter: Jitter,
    },
}

/// The share of a delay that chance may take away, in percent (0 to 100).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(u8);

/// Why a retry policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryPolicyError {
    /// Jitter above 1.
    #[error("jitter must be from 0 to 1")]
    Jitter,
    /// A delay of nothing would spin.
    #[error("a delay must be longer than zero")]
    ZeroDelay,
    /// Delays must not shrink from one failure to the next.
    #[error("delays must not shrink")]
    Shrinking,
    /// The cap is below the base.
    #[error("the cap must not be below the base")]
    CapBelowBase,
}

impl Jitter {
    /// None: delays are exact.
    pub const NONE: Jitter = Jitter(0);

    /// From a percentage.
    pub fn percent(percent: u8) -> Result<Jitter, RetryPolicyError> {
        if percent <= 100 { Ok(Jitter(percent)) } else { Err(RetryPolicyError::Jitter) }
    }
}

impl RetryPolicy {
    /// No delay is longer than an hour (spec §1 "retry schedule").
    pub const LONGEST: Duration = Duration::from_secs(3600);

    /// The outbox's default: 5 s, 30 s, 2 min, then FAILED (000 §7.3).
    pub fn outbox_default() -> RetryPolicy {
        RetryPolicy::Schedule { delays: [5, 30, 120].map(Duration::from_secs).to_vec() }
    }

    /// A consumer's: the first delivery and `threshold` retries, 200 ms doubled up to 5 s (spec §3 "Consuming").
    pub fn consumer(base: Duration, cap: Duration, threshold: u32) -> RetryPolicy {
        RetryPolicy::Exponential {
            base,
            cap,
            max_attempts: NonZeroU32::MIN.saturating_add(threshold),
            jitter: Jitter::NONE,
        }
    }

    /// Checks what the types do not: no zero delay, nothing that shrinks.
    pub fn checked(self) -> Result<RetryPolicy, RetryPolicyError> {
        match &self {
            RetryPolicy::Schedule { delays } => {
                if delays.iter().any(Duration::is_zero) {
                    return Err(RetryPolicyError::ZeroDelay);
                }
                if delays.windows(2).any(|pair| pair[1] < pair[0]) {
                    return Err(RetryPolicyError::Shrinking);
                }
            }
            RetryPolicy::Exponential { base, cap, .. } => {
                if base.is_zero() {
                    return Err(RetryPolicyError::ZeroDelay);
                }
                if cap < base {
                    return Err(RetryPolicyError::CapBelowBase);
                }
            }
        }
        Ok(self)
    }

    /// How many attempts there are before the last failure is final.
    pub fn attempts(&self) -> u32 {
        match self {
            RetryPolicy::Schedule { delays } => {
                u32::try_from(delays.len()).unwrap_or(u32::MAX).saturating_add(1)
            }
            RetryPolicy::Exponential { max_attempts, .. } => max_attempts.get(),
        }
    }

    /// What follows failure number `failures` (1 is the first). `chance` is any number; it only picks the jitter.
    pub fn after(&self, failures: NonZeroU32, chance: u64) -> Retry {
        if failures.get() >= self.attempts() {
            return Retry::GiveUp;
        }
        let index = failures.get() - 1;
        match self {
            RetryPolicy::Schedule { delays } => {
                delays.get(index as usize).map_or(Retry::GiveUp, |delay| Retry::After(*delay))
            }
            RetryPolicy::Exponential { base, cap, jitter, .. } => {
                let cap = (*cap).min(Self::LONGEST);
                let full = base.saturating_mul(2u32.saturating_pow(index)).min(cap);
                let shorter = full.mul_f64(f64::from(jitter.0) / 100.0 * unit(chance));
                Retry::After(full.saturating_sub(shorter))
            }
        }
    }
}

/// Maps any number to `[0, 1)`.
fn unit(chance: u64) -> f64 {
    f64::from(u32::try_from(chance >> 32).unwrap_or(u32::MAX)) / (f64::from(u32::MAX) + 1.0)
}
