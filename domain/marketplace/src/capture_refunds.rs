//! The refunds that return the money of a capture.

use crate::{Capture, Refund, RefundStatus};

impl Capture {
    /// Whether the refund returns the money of this capture.
    pub fn is_refunded_by(&self, refund: &Refund) -> bool {
        (refund.payment, refund.capture) == (self.payment, self.number)
    }

    /// The refund that has returned the money, or is returning it. An excess refund counts, too: if the gateway takes the
    /// money of the other refund back, the buyer still has the money of the excess one.
    pub fn live_refund<'a>(&self, refunds: &'a [Refund]) -> Option<&'a Refund> {
        refunds.iter().find(|refund| refund.status != RefundStatus::Failed && self.is_refunded_by(refund))
    }
}
