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
use marketplace_domain::{Currency, Money, Reference};

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

/// The column value of a reference.
fn reference(of: Option<Reference>) -> Option<String> {
    of.map(|reference| reference.to_string())
}
