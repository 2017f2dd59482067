//! The event ORDER_CANCELLED.

use chrono::{DateTime, Utc};
use handover_events::{Event, rfc3339};
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, OrderEvidence};
use crate::{CancelReason, OrderStatus, ProductId};

/// `pending` -> `cancelled`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "ORDER_CANCELLED", aggregate = "Order", routing_key = "order.cancelled")]
#[event(summary = "An order was cancelled; its product is for sale again")]
#[serde(rename_all = "camelCase")]
pub struct OrderCancelled {
    #[event(key)]
    #[serde(flatten)]
    pub order: OrderFacts,
    #[event(visible)]
    pub reason: CancelReason,
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub cancelled_at: DateTime<Utc>,
    /// The product, which is available again.
    #[event(visible)]
    #[serde(rename = "productId")]
    pub product: ProductId,
}

impl MarketEvent for OrderCancelled {
    fn order(&self) -> Option<&OrderFacts> {
        Some(&self.order)
    }

    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
        order.check_facts(&self.order)?;
        order.check_product(self.product)?;
        order.check_transition(order.status == OrderStatus::Cancelled, "cancelled")?;
        match order.cancel_reason {
            Some(stored) if stored != self.reason => {
                Err(Contradiction::CancelReason { said: self.reason, stored })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn change(&self) -> Option<Change> {
        let cancelled = Change::of_order(OrderStatus::Cancelled, "order cancelled");
        Some(Change { detail: Some(self.reason.as_str().to_owned()), ..cancelled })
    }
}
