//! The event ORDER_STATUS_CHANGED.

use chrono::{DateTime, Utc};
use handover_events::{Event, rfc3339};
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::OrderStatus;
use crate::evidence::{Contradiction, OrderEvidence};

/// `paid` -> `shipped`, `shipped` -> `completed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "ORDER_STATUS_CHANGED", aggregate = "Order", routing_key = "order.status.changed")]
#[event(summary = "An order was shipped or completed")]
#[serde(rename_all = "camelCase")]
pub struct OrderStatusChanged {
    #[event(key)]
    #[serde(flatten)]
    pub order: OrderFacts,
    #[event(visible)]
    pub old_status: OrderStatus,
    #[event(visible)]
    pub new_status: OrderStatus,
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub changed_at: DateTime<Utc>,
}

impl MarketEvent for OrderStatusChanged {
    fn order(&self) -> Option<&OrderFacts> {
        Some(&self.order)
    }

    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
        order.check_facts(&self.order)?;
        match (self.old_status, self.new_status) {
            (OrderStatus::Paid, OrderStatus::Shipped) => order.check_transition(order.was_shipped, "shipped"),
            (OrderStatus::Shipped, OrderStatus::Completed) => {
                order.check_transition(order.status == OrderStatus::Completed, "completed")
            }
            (from, to) => Err(Contradiction::NoTransition { from, to }),
        }
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_order(self.new_status, &format!("order {}", self.new_status)))
    }
}
