//! The trait of the events of the marketplace.

use handover_events::{EventType, Payload};

use super::change::Change;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, OrderEvidence};

/// An event of the marketplace.
pub trait MarketEvent: EventType + Payload {
    /// The order fields of the payload; `None` if the aggregate is not an order.
    fn order(&self) -> Option<&OrderFacts>;

    /// Checks the fields of the event, and the transition that it announces, against the row of its order. Later
    /// transitions of the row do no harm: they never remove `pay_time` or the shipment, which prove the earlier ones.
    /// Events of payments, refunds and invoices are not checked.
    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction>;

    /// The change that the event announces, for the timeline of the order; `None` if it announces none.
    fn change(&self) -> Option<Change>;
}
