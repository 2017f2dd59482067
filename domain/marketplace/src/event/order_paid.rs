//! The event ORDER_PAID.

use chrono::{DateTime, Utc};
use handover_events::{Event, rfc3339};
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, OrderEvidence, same};
use crate::{Money, OrderStatus, ProductId};

/// `pending` -> `paid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "ORDER_PAID", aggregate = "Order", routing_key = "order.paid")]
#[event(summary = "An order was paid")]
#[serde(rename_all = "camelCase")]
pub struct OrderPaid {
    #[event(key)]
    #[serde(flatten)]
    pub order: OrderFacts,
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub pay_time: DateTime<Utc>,
    /// Amount paid in money.
    #[event(visible)]
    pub amount: Money,
    #[event(visible)]
    #[serde(rename = "productId")]
    pub product: ProductId,
}

impl MarketEvent for OrderPaid {
    fn order(&self) -> Option<&OrderFacts> {
        Some(&self.order)
    }

    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
        order.check_facts(&self.order)?;
        order.check_product(self.product)?;
        order.check_transition(order.was_paid, "paid")?;
        same("amount", self.amount, order.payable)
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_order(OrderStatus::Paid, "order paid"))
    }
}
