//! The event PAYMENT_FAILED.

use handover_events::Event;
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::{OrderFacts, PaymentSettled};
use crate::evidence::{Contradiction, OrderEvidence};

/// The gateway reported a failed payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "PAYMENT_FAILED", aggregate = "Payment", routing_key = "payment.failed")]
#[event(summary = "The gateway reported that a payment failed")]
#[serde(transparent)]
pub struct PaymentFailed(pub PaymentSettled);

impl MarketEvent for PaymentFailed {
    fn order(&self) -> Option<&OrderFacts> {
        None
    }

    fn check(&self, _: &OrderEvidence) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_payment(&self.0, "FAILED", "failed"))
    }
}
