//! The event REFUND_SUCCEEDED.

use handover_events::Event;
use serde::Serialize;

use super::{Change, MarketEvent, OrderFacts, RefundSettled};
use crate::order::evidence::Contradiction;
use crate::{Order, RefundStatus};

/// The gateway reported a successful refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "REFUND_SUCCEEDED", aggregate = "Refund", routing_key = "refund.succeeded")]
#[event(summary = "The gateway reported that a refund succeeded")]
#[serde(transparent)]
pub struct RefundSucceeded(pub RefundSettled);

impl MarketEvent for RefundSucceeded {
    fn order(&self) -> Option<&OrderFacts> {
        None
    }

    fn check(&self, _: &Order) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_refund(&self.0, RefundStatus::Success, "succeeded"))
    }
}
