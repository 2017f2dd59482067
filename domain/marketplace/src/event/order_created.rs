//! The event ORDER_CREATED.

use handover_events::Event;
use serde::Serialize;

use super::change::Change;
use super::fields::One;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, Optional, OrderEvidence, same};
use crate::{CouponId, Money, OrderStatus, Points, ProductId};

/// An order was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "ORDER_CREATED", aggregate = "Order", routing_key = "order.created")]
#[event(summary = "An order was placed; its product is sold")]
#[serde(rename_all = "camelCase")]
pub struct OrderCreated {
    #[event(key)]
    #[serde(flatten)]
    pub order: OrderFacts,
    #[event(visible)]
    #[serde(rename = "productId")]
    pub product: ProductId,
    /// Number of items; always 1, because products are unique.
    #[event(visible, value = One)]
    pub quantity: i64,
    #[event(visible)]
    pub price: Money,
    #[event(visible)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupon_id: Option<CouponId>,
    #[event(visible)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wallet_amount: Option<Money>,
    #[event(visible)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Points>,
}

impl MarketEvent for OrderCreated {
    fn order(&self) -> Option<&OrderFacts> {
        Some(&self.order)
    }

    fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
        order.check_facts(&self.order)?;
        order.check_product(self.product)?;
        same("price", self.price, order.total)?;
        let coupon = order.assets.coupon.map(|coupon| coupon.id);
        same("couponId", Optional(self.coupon_id), Optional(coupon))?;
        same("walletAmount", self.wallet_amount.unwrap_or(Money::ZERO), order.assets.wallet)?;
        same("points", self.points.map_or(0, Points::get), order.assets.points.get())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_order(OrderStatus::Pending, "order placed"))
    }
}
