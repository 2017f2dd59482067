//! Errors of the store.

use handover_outbox::ports::StoreError;

/// The error for a violated unique key, or for a row that another unit of work changed.
pub fn conflict(what: impl Into<String>) -> StoreError {
    StoreError::Conflict { what: what.into() }
}

pub(super) fn transient(why: &'static str) -> StoreError {
    StoreError::Transient(why.into())
}
