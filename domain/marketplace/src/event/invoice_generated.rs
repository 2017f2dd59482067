//! The event INVOICE_GENERATED.

use chrono::NaiveDate;
use handover_events::Event;
use serde::Serialize;

use super::change::Change;
use super::market_event::MarketEvent;
use super::parts::OrderFacts;
use crate::evidence::{Contradiction, OrderEvidence};
use crate::{Currency, InvoiceId, Money};

/// The invoice of a tenant for a month was generated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Event)]
#[event(name = "INVOICE_GENERATED", aggregate = "Invoice", routing_key = "invoice.generated")]
#[event(summary = "An invoice was generated")]
#[serde(rename_all = "camelCase")]
pub struct InvoiceGenerated {
    #[event(key, visible)]
    #[serde(rename = "invoiceId")]
    pub invoice: InvoiceId,
    /// First day of the billing period.
    #[event(visible)]
    pub period_start: NaiveDate,
    /// Last day of the billing period, inclusive.
    #[event(visible)]
    pub period_end: NaiveDate,
    #[event(visible)]
    pub total: Money,
    #[event(visible)]
    pub currency: Currency,
}

impl MarketEvent for InvoiceGenerated {
    fn order(&self) -> Option<&OrderFacts> {
        None
    }

    fn check(&self, _: &OrderEvidence) -> Result<(), Contradiction> {
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        None
    }
}
