//! The event REFUND_SUCCEEDED.

use handover_events::Event;
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::{OrderFacts, RefundSettled};
use crate::evidence::{Contradiction, OrderEvidence};

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

    fn check(&self, _: &OrderEvidence) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_refund(&self.0, "SUCCESS", "succeeded"))
    }
}
