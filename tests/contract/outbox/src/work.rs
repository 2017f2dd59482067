//! Steps and assertions for rules about units of work, for the store of any application.

use std::fmt::Debug;

use handover_outbox::ports::{Changed, StoreError, UnitOfWork};

use super::within;

/// Commits a unit of work; the commit must succeed.
pub async fn commit<U: UnitOfWork + ?Sized>(unit: Box<U>) {
    within("commit", unit.commit()).await.expect("cannot commit the unit of work");
}

/// Asserts that a write changed its row.
pub fn changes_one(changed: Result<Changed, StoreError>) {
    assert_eq!(changed.expect("the write succeeds"), Changed::One);
}

/// Asserts that a write found no row to change, which is not an error.
pub fn changes_none(changed: Result<Changed, StoreError>) {
    assert_eq!(changed.expect("finding no row must not be an error"), Changed::None);
}

/// Asserts a conflict on a unique key or an expected state.
pub fn is_conflict<T: Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict { .. })), "expected a conflict, got {result:?}");
}
