//! The event ORDER_TIMEOUT.

use chrono::{DateTime, Utc};
use handover_events::{Event, rfc3339};
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, OrderEvidence};

/// Triggers the check of the payment deadline. The delay queue delays the message until the deadline. Neither waits for earlier
/// events nor blocks later ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "ORDER_TIMEOUT", aggregate = "Order", routing_key = "order.timeout.delay", unordered)]
#[event(summary = "The payment deadline of an order is to be checked")]
#[serde(rename_all = "camelCase")]
pub struct OrderTimeout {
    #[event(key)]
    #[serde(flatten)]
    pub order: OrderFacts,
    /// Time at which the order was created; the payment deadline is computed from this time.
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub create_time: DateTime<Utc>,
}

impl MarketEvent for OrderTimeout {
    fn order(&self) -> Option<&OrderFacts> {
        Some(&self.order)
    }

    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
        order.check_facts(&self.order)
    }

    fn change(&self) -> Option<Change> {
        None
    }
}
