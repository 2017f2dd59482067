//! The marketplace's repositories on SQL, in the transactions of [`handover_sql`]: one repository per file, shared by
//! all engines.
//!
//! **Invariant:** no business rules: a rule in SQL is a bug, except for constraints that reject conflicting concurrent
//! writes.

mod assets;
mod captures;
mod credit;
mod effects;
mod findings;
mod gateway_reports;
mod ids;
mod invoices;
mod job_queries;
mod notifications;
mod of_orders;
mod orders;
mod payments;
mod personal_texts;
mod products;
#[cfg(test)]
mod query_plans;
mod refunds;
mod requests;
mod session;
mod store;

pub use store::{MIGRATIONS, SqlMarket};

use handover_outbox::ports::StoreError;
use handover_sql::Fields;
use marketplace_domain::{Currency, Money, PayableId, Reference};

/// Reads amounts, which are stored in minor units.
trait AmountFields {
    fn money(&self, column: &'static str) -> Result<Money, StoreError>;
    fn opt_money(&self, column: &'static str) -> Result<Option<Money>, StoreError>;
    fn currency(&self, column: &'static str) -> Result<Currency, StoreError>;
}

impl AmountFields for Fields<'_> {
    fn money(&self, column: &'static str) -> Result<Money, StoreError> {
        Money::from_minor(self.int(column)?).map_err(|error| self.corrupt(column, error))
    }

    fn opt_money(&self, column: &'static str) -> Result<Option<Money>, StoreError> {
        self.opt_int(column)?.map(|_| self.money(column)).transpose()
    }

    fn currency(&self, column: &'static str) -> Result<Currency, StoreError> {
        match self.text(column)? {
            text if text == Currency::CNY.as_str() => Ok(Currency::CNY),
            text => Err(self.corrupt(column, format!("{text:?} is unknown"))),
        }
    }
}

/// Reads the columns `order_id` and `invoice_id`, of which exactly one has a value.
fn payable(row: &Fields<'_>) -> Result<PayableId, StoreError> {
    opt_payable(row)?.ok_or_else(|| row.corrupt("order_id", "the row has neither an order nor an invoice"))
}

/// Reads the columns `order_id` and `invoice_id`, of which at most one has a value.
fn opt_payable(row: &Fields<'_>) -> Result<Option<PayableId>, StoreError> {
    match (row.opt_id("order_id")?, row.opt_id("invoice_id")?) {
        (Some(order), None) => Ok(Some(PayableId::Order(order))),
        (None, Some(invoice)) => Ok(Some(PayableId::Invoice(invoice))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(row.corrupt("invoice_id", "the row has an order and an invoice")),
    }
}

/// The column value of a reference.
fn reference(of: Option<Reference>) -> Option<String> {
    of.map(|reference| reference.to_string())
}
