//! Outages of the database.

use crate::ports::StoreError;
use crate::transaction::UnitError;

/// Describes an outage in a log line.
pub(super) fn outage<E: UnitError>(error: &E) -> &'static str {
    let fault = error.store_error().and_then(StoreError::system_fault);
    if fault.is_some() { "database refuses statements" } else { "database unavailable" }
}
