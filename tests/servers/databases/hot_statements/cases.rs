//! The frequent statements, grouped by the port that runs them.

mod consumers;
mod erasure;
mod marketplace;
mod outbox;
mod webhooks;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};

use marketplace_sql::SqlMarket;

use super::fill::ACTIVE;

/// One statement, or several statements that belong together.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Allowed indexes. The primary key is named PRIMARY on MariaDB.
    pub(super) indexes: &'static [&'static str],
    /// Runs the statement. Returns the number of returned rows.
    pub(super) run: for<'s> fn(&'s SqlMarket) -> Pin<Box<dyn Future<Output = usize> + Send + 's>>,
}

/// A read outside a transaction.
macro_rules! view {
    ($name:literal, $indexes:expr, |$view:ident| $read:expr) => {
        Case {
            name: $name,
            indexes: &$indexes,
            run: |store| {
                Box::pin(async move {
                    let mut $view = store.view().await.unwrap();
                    $read.await.unwrap().into_iter().count()
                })
            },
        }
    };
}

/// Statements of a unit of work. On empty tables they fail with a conflict, and the unit of work is not committed.
macro_rules! unit {
    ($name:literal, $indexes:expr, |$unit:ident| $work:expr) => {
        Case {
            name: $name,
            indexes: &$indexes,
            run: |store| {
                Box::pin(async move {
                    let mut $unit = store.begin().await.unwrap();
                    if $work.await.is_ok() {
                        $unit.commit().await.unwrap();
                    }
                    0
                })
            },
        }
    };
}

use {unit, view};

/// Returns the id of an order that has no effects yet: a second effect of the same fact would be a conflict.
fn new_order() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(ACTIVE + 1_000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// All cases.
pub(super) const CASES: [&[Case]; 5] =
    [outbox::CASES, consumers::CASES, webhooks::CASES, marketplace::CASES, erasure::CASES];
