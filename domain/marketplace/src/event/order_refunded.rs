//! The event ORDER_REFUNDED.

use chrono::{DateTime, Utc};
use handover_events::{Event, rfc3339};
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, OrderEvidence, same};
use crate::{Money, OrderStatus, ProductId, RefundId};

/// `paid` -> `refunded`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "ORDER_REFUNDED", aggregate = "Order", routing_key = "order.refunded")]
#[event(summary = "An order was refunded before it was shipped; its product is for sale again")]
#[serde(rename_all = "camelCase")]
pub struct OrderRefunded {
    #[event(key)]
    #[serde(flatten)]
    pub order: OrderFacts,
    #[event(visible)]
    #[serde(rename = "refundId")]
    pub refund: RefundId,
    #[event(visible)]
    pub amount: Money,
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub refunded_at: DateTime<Utc>,
    /// The product, which is available again.
    #[event(visible)]
    #[serde(rename = "productId")]
    pub product: ProductId,
}

impl MarketEvent for OrderRefunded {
    fn order(&self) -> Option<&OrderFacts> {
        Some(&self.order)
    }

    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
        order.check_facts(&self.order)?;
        order.check_product(self.product)?;
        order.check_transition(order.status == OrderStatus::Refunded, "refunded")?;
        same("refundId", self.refund, order.refund.unwrap_or(self.refund))
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_order(OrderStatus::Refunded, "order refunded"))
    }
}
