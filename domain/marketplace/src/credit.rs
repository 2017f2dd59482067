//! Buyer credit: counts of order outcomes, and the score computed from them.
//!
//! **Invariant:** the score depends only on the counts, not on the sequence of the events.

use serde::{Deserialize, Serialize};

use crate::CancelReason;
use handover_events::named;

/// Outcome of an order that affects the credit of its buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CreditOutcome {
    /// The buyer confirmed receipt.
    Completed,
    CancelledByBuyer,
    /// The order was not paid in time.
    CancelledByTimeout,
}

named!(CreditOutcome {
    Completed => "COMPLETED", CancelledByBuyer => "CANCELLED_BY_BUYER", CancelledByTimeout => "CANCELLED_BY_TIMEOUT"
});

impl CreditOutcome {
    /// The outcome that a cancellation counts as in the buyer's credit; `None` if the buyer did not cause it.
    pub const fn of_cancellation(reason: CancelReason) -> Option<CreditOutcome> {
        match reason {
            CancelReason::Buyer => Some(CreditOutcome::CancelledByBuyer),
            CancelReason::Timeout => Some(CreditOutcome::CancelledByTimeout),
            CancelReason::Seller | CancelReason::AssetLockFailed | CancelReason::PaymentFailed => None,
        }
    }
}

/// Number of a buyer's orders per outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CreditCounts {
    pub completed: u32,
    pub cancelled_by_buyer: u32,
    pub cancelled_by_timeout: u32,
}

impl CreditCounts {
    /// Score of a buyer without counted orders.
    pub const INITIAL_SCORE: u32 = 100;
    /// Maximum score; the minimum is 0.
    pub const MAX_SCORE: u32 = 120;

    /// The counts after one more order with this outcome.
    #[must_use]
    pub const fn and(self, step: CreditOutcome) -> CreditCounts {
        let mut counts = self;
        let count = match step {
            CreditOutcome::Completed => &mut counts.completed,
            CreditOutcome::CancelledByBuyer => &mut counts.cancelled_by_buyer,
            CreditOutcome::CancelledByTimeout => &mut counts.cancelled_by_timeout,
        };
        *count = count.saturating_add(1);
        counts
    }

    /// 100, +1 per completed order, -2 per cancellation by the buyer, -5 per timeout; the total is clamped to 0..=120.
    pub fn score(self) -> u32 {
        let earned = u64::from(Self::INITIAL_SCORE) + u64::from(self.completed);
        let lost = 2 * u64::from(self.cancelled_by_buyer) + 5 * u64::from(self.cancelled_by_timeout);
        let total = earned.saturating_sub(lost).min(u64::from(Self::MAX_SCORE));
        u32::try_from(total).unwrap_or(Self::MAX_SCORE)
    }
}
