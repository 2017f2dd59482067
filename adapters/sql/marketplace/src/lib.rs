//! The marketplace's repositories on SQL, in the transactions of [`handover_sql`]: one repository per file, shared by
//! all engines.
//!
//! **Invariant:** no business rules: a rule in SQL is a bug, except for constraints that reject conflicting concurrent
//! writes.

mod assets;
mod captures;
mod credit;
mod effects;
mod gateway_reports;
mod ids;
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
use marketplace_domain::{Money, Reference};

/// Reads an amount that is stored in minor units.
fn money(row: &Fields<'_>, column: &'static str) -> Result<Money, StoreError> {
    Money::from_minor(row.int(column)?).map_err(|error| row.corrupt(column, error))
}

/// The column value of a reference.
fn reference(of: Option<Reference>) -> Option<String> {
    of.map(|reference| reference.to_string())
}
