//! Outages of the database.

use std::time::Duration;

use crate::ports::StoreError;
use crate::tasks::NoPermit;
use crate::transaction::UnitError;

/// First pause after a failure of store or broker.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
pub(super) const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Describes an outage in a log line.
pub(super) fn outage<E: UnitError>(error: &E) -> &'static str {
    let error = error.store_error();
    if error.is_some_and(NoPermit::is_cause_of) {
        "other handlers use all connections"
    } else if error.and_then(StoreError::system_fault).is_some() {
        "database refuses statements"
    } else {
        "database unavailable"
    }
}
