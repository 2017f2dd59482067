//! The evidence that an order's row gives for its events.

use super::Order;
use crate::event::EventBody;
use crate::evidence::{Contradiction, OrderEvidence};
use crate::order_status::OrderStatus;

impl Order {
    /// Checks an event of this order against the row ([`MarketEvent::check`](crate::event::MarketEvent::check)).
    pub fn confirms(&self, body: &EventBody) -> Result<(), Contradiction> {
        body.check(&OrderEvidence {
            facts: self.facts(),
            status: self.status,
            cancel_reason: self.cancel_reason,
            product: self.product,
            total: self.total,
            payable: self.payable,
            assets: self.assets,
            refund: self.refund,
            was_paid: self.was_paid(),
            was_shipped: self.was_shipped(),
        })
    }

    /// Whether the order was paid at any time; `pay_time` is never removed.
    pub fn was_paid(&self) -> bool {
        self.pay_time.is_some()
    }

    /// Whether the order was shipped at any time; the shipment is never removed.
    pub fn was_shipped(&self) -> bool {
        self.shipment.is_some()
    }

    /// Whether the order was cancelled or refunded, so that its product is available again.
    pub fn is_cancelled_or_refunded(&self) -> bool {
        matches!(self.status, OrderStatus::Cancelled | OrderStatus::Refunded)
    }
}
