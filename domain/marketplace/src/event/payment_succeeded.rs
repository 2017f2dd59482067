//! The event PAYMENT_SUCCEEDED.

use handover_events::Event;
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::{OrderFacts, PaymentSettled};
use crate::evidence::{Contradiction, OrderEvidence};

/// The gateway reported a successful payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "PAYMENT_SUCCEEDED", aggregate = "Payment", routing_key = "payment.succeeded")]
#[event(summary = "The gateway reported that a payment succeeded")]
#[serde(transparent)]
pub struct PaymentSucceeded(pub PaymentSettled);

impl MarketEvent for PaymentSucceeded {
    fn order(&self) -> Option<&OrderFacts> {
        None
    }

    fn check(&self, _: &OrderEvidence) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_payment(&self.0, "SUCCESS", "succeeded"))
    }
}
