//! A buyer's credit: what became of the orders that count, and the score that follows from it (spec §2).
//!
//! **Invariant:** the score depends on the counts alone, never on the order in which they came about.

use serde::{Deserialize, Serialize};

use crate::CancelReason;
use handover_events::named;

/// An end of an order that counts for its buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CreditStep {
    /// The buyer received it.
    Completed,
    /// The buyer cancelled it.
    CancelledByBuyer,
    /// It was not paid in time.
    CancelledByTimeout,
}

named!(CreditStep {
    Completed => "COMPLETED", CancelledByBuyer => "CANCELLED_BY_BUYER", CancelledByTimeout => "CANCELLED_BY_TIMEOUT"
});

impl CreditStep {
    /// What a cancellation counts as; one that the buyer did not cause counts as nothing.
    pub const fn of_cancellation(reason: CancelReason) -> Option<CreditStep> {
        match reason {
            CancelReason::Buyer => Some(CreditStep::CancelledByBuyer),
            CancelReason::Timeout => Some(CreditStep::CancelledByTimeout),
            CancelReason::AssetLockFailed | CancelReason::PaymentFailed => None,
        }
    }
}

/// How many of a buyer's orders ended in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CreditCounts {
    /// Received.
    pub completed: u32,
    /// Cancelled by the buyer.
    pub cancelled_by_buyer: u32,
    /// Not paid in time.
    pub cancelled_by_timeout: u32,
}

impl CreditCounts {
    /// The score of a buyer of whom nothing is known.
    pub const FIRST_SCORE: u32 = 100;
    /// No score is above this; none is below 0.
    pub const GREATEST_SCORE: u32 = 120;

    /// One more of these.
    #[must_use]
    pub const fn and(self, step: CreditStep) -> CreditCounts {
        let mut counts = self;
        let count = match step {
            CreditStep::Completed => &mut counts.completed,
            CreditStep::CancelledByBuyer => &mut counts.cancelled_by_buyer,
            CreditStep::CancelledByTimeout => &mut counts.cancelled_by_timeout,
        };
        *count = count.saturating_add(1);
        counts
    }

    /// 100, +1 per completed, -2 per own cancellation, -5 per timeout; the total is kept within 0 and 120.
    pub fn score(self) -> u32 {
        let earned = u64::from(Self::FIRST_SCORE) + u64::from(self.completed);
        let lost = 2 * u64::from(self.cancelled_by_buyer) + 5 * u64::from(self.cancelled_by_timeout);
        let total = earned.saturating_sub(lost).min(u64::from(Self::GREATEST_SCORE));
        u32::try_from(total).unwrap_or(Self::GREATEST_SCORE)
    }
}
