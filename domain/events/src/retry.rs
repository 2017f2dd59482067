//! Retry policies: the delay after each failure, and the maximum number of attempts.

use std::num::NonZeroU32;
use std::time::Duration;

/// Decision after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Retry after this delay.
    After(Duration),
    /// No attempt is left.
    GiveUp,
}

/// The delays between attempts, and the number of attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// A fixed delay per failure; the failure after the last delay is final.
    Schedule {
        /// The delay after each failure, in order.
        delays: Vec<Duration>,
    },
    /// Exponential backoff: `base`, doubled with each failure up to `cap`, minus the jitter. Failure number
    /// `max_attempts` is final.
    Exponential {
        /// Delay after the first failure.
        base: Duration,
        /// Maximum delay.
        cap: Duration,
        /// Total number of attempts.
        max_attempts: NonZeroU32,
        /// Maximum share by which a random number shortens a delay.
        jitter: Jitter,
    },
}

/// Maximum share by which a random number shortens a delay, in percent (0 to 100).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(u8);

/// Reason why a retry policy is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryPolicyError {
    /// The jitter is above 1 (100 %).
    #[error("jitter must be from 0 to 1")]
    Jitter,
    /// A delay is zero, so retries would form a busy loop.
    #[error("a delay must be longer than zero")]
    ZeroDelay,
    /// A delay is shorter than the previous delay.
    #[error("a delay must not be shorter than the previous delay")]
    Shrinking,
    /// The maximum delay is below the first delay.
    #[error("the cap must not be below the base")]
    CapBelowBase,
}

impl Jitter {
    /// No jitter: delays are exact.
    pub const NONE: Jitter = Jitter(0);

    /// Creates a jitter from a percentage; an error if it is above 100.
    pub fn percent(percent: u8) -> Result<Jitter, RetryPolicyError> {
        if percent <= 100 { Ok(Jitter(percent)) } else { Err(RetryPolicyError::Jitter) }
    }
}

impl RetryPolicy {
    /// Maximum delay of exponential backoff for any cap: one hour.
    pub const MAX_DELAY: Duration = Duration::from_secs(3600);

    /// Default policy of the outbox: 5 s, 30 s, 2 min, then FAILED.
    pub fn outbox_default() -> RetryPolicy {
        RetryPolicy::Schedule { delays: [5, 30, 120].map(Duration::from_secs).to_vec() }
    }

    /// Policy of a consumer: one attempt and `threshold` retries, with exponential backoff without jitter. The consumer
    /// settings pass 200 ms and 5 s by default.
    pub fn consumer(base: Duration, cap: Duration, threshold: u32) -> RetryPolicy {
        RetryPolicy::Exponential {
            base,
            cap,
            max_attempts: NonZeroU32::MIN.saturating_add(threshold),
            jitter: Jitter::NONE,
        }
    }

    /// Validates the policy: no delay is zero or shorter than the previous delay.
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

    /// Number of attempts; the failure of the last one is final.
    pub fn attempts(&self) -> u32 {
        match self {
            RetryPolicy::Schedule { delays } => {
                u32::try_from(delays.len()).unwrap_or(u32::MAX).saturating_add(1)
            }
            RetryPolicy::Exponential { max_attempts, .. } => max_attempts.get(),
        }
    }

    /// Longest delay of the policy; jitter cannot make a delay longer.
    pub fn longest_delay(&self) -> Duration {
        match self {
            RetryPolicy::Schedule { delays } => delays.iter().copied().max().unwrap_or_default(),
            RetryPolicy::Exponential { cap, .. } => (*cap).min(Self::MAX_DELAY),
        }
    }

    /// Decides after failure number `failures` (1 is the first). `random` is a random number that selects the jitter.
    pub fn after(&self, failures: NonZeroU32, random: u64) -> Retry {
        if failures.get() >= self.attempts() {
            return Retry::GiveUp;
        }
        let index = failures.get() - 1;
        match self {
            RetryPolicy::Schedule { delays } => {
                delays.get(index as usize).map_or(Retry::GiveUp, |delay| Retry::After(*delay))
            }
            RetryPolicy::Exponential { base, cap, jitter, .. } => {
                let cap = (*cap).min(Self::MAX_DELAY);
                let full = base.saturating_mul(2u32.saturating_pow(index)).min(cap);
                let shorter = full.mul_f64(f64::from(jitter.0) / 100.0 * unit(random));
                Retry::After(full.saturating_sub(shorter))
            }
        }
    }
}

/// Maps any number to `[0, 1)`.
fn unit(random: u64) -> f64 {
    f64::from(u32::try_from(random >> 32).unwrap_or(u32::MAX)) / (f64::from(u32::MAX) + 1.0)
}
