//! The event REFUND_FAILED.

use handover_events::Event;
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::{OrderFacts, RefundSettled};
use crate::evidence::{Contradiction, OrderEvidence};

/// The gateway reported a failed refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "REFUND_FAILED", aggregate = "Refund", routing_key = "refund.failed")]
#[event(summary = "The gateway reported that a refund failed")]
#[serde(transparent)]
pub struct RefundFailed(pub RefundSettled);

impl MarketEvent for RefundFailed {
    fn order(&self) -> Option<&OrderFacts> {
        None
    }

    fn check(&self, _: &OrderEvidence) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_refund(&self.0, "FAILED", "failed"))
    }
}
