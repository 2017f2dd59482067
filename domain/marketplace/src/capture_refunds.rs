//! The refunds that return the money of a capture.

use crate::{Capture, Refund, RefundStatus};

impl Capture {
    /// Whether the refund returns the money of this capture.
    pub fn is_refunded_by(&self, refund: &Refund) -> bool {
        (refund.payment, refund.capture) == (self.payment, self.number)
    }

    /// Whether one of the refunds has returned the money, or is returning it.
    pub fn has_live_refund(&self, refunds: &[Refund]) -> bool {
        let is_live = |refund: &&Refund| refund.status != RefundStatus::Failed && !refund.is_excess;
        refunds.iter().filter(is_live).any(|refund| self.is_refunded_by(refund))
    }
}
