//! The event PAYMENT_SUCCEEDED.

use handover_events::Event;
use serde::Serialize;

use super::{Change, MarketEvent, OrderFacts, PaymentSettled};
use crate::order::evidence::Contradiction;
use crate::{Order, PaymentStatus};

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

    fn check(&self, _: &Order) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        Some(Change::of_payment(&self.0, PaymentStatus::Success, "succeeded"))
    }
}
