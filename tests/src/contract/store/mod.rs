//! The contract of [`Store`]: one file per port.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_application::Wake;
use handover_application::ports::{Changed, Store, StoreError, UnitOfWork, View};

use super::{RuleFuture, within};

pub mod consume;
pub mod dead_letters;
pub mod effects;
pub mod ids;
pub mod leases;
pub mod orders;
pub mod outbox;
pub mod outbox_due;
pub mod payments;
pub mod products;
pub mod races;
pub mod units;

/// A fresh, empty store and what surrounds it.
#[async_trait]
pub trait StoreRig: Send + Sync {
    /// The store; every call gives the same.
    fn store(&self) -> Arc<dyn Store>;

    /// The bell that commits of this store ring.
    fn wake(&self) -> Wake;

    /// Moves the database's own clock, by which leases are judged.
    fn move_database_clock(&self, by: TimeDelta);

    /// What the adapter offers where adapters differ by nature.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    /// The same database as a process finds it that starts anew; `None` where there is no such thing.
    async fn reopened(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

/// What stores do not have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Units of work run side by side. Without it a second `begin` waits until the first unit has ended.
    pub side_by_side: bool,
}

impl Default for StoreCapabilities {
    fn default() -> Self {
        StoreCapabilities { side_by_side: true }
    }
}

/// A rule of the store's contract.
#[derive(Clone, Copy)]
pub struct StoreRule {
    /// The file it is in.
    pub file: &'static str,
    /// The sentence it states.
    pub name: &'static str,
    /// Runs it on a fresh rig; panics if it is broken.
    pub run: for<'a> fn(&'a dyn StoreRig) -> RuleFuture<'a>,
}

macro_rules! registry {
    ([] $($file:ident: [$($rule:ident),* $(,)?])*) => {
        /// Every rule of the store's contract.
        pub const RULES: &[StoreRule] = &[$($(StoreRule {
            file: stringify!($file),
            name: stringify!($rule),
            run: |rig| Box::pin($file::$rule(rig)),
        }),*),*];
    };
}
crate::store_rules!([registry]);

/// Stamps one test per rule of the store's contract: `store_contract!(sqlite, sqlite_rig)`, where `sqlite_rig` is an
/// `async fn` that returns a fresh [`StoreRig`].
#[macro_export]
macro_rules! store_contract {
    ($name:ident, $rig:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::store_rules!([$crate::stamp_store_rules] $rig);
        }
    };
}

/// What [`store_contract!`](crate::store_contract) expands to.
#[doc(hidden)]
#[macro_export]
macro_rules! stamp_store_rules {
    ([$rig:expr] $($file:ident: [$($rule:ident),* $(,)?])*) => {$(
        mod $file {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $rule() {
                    $crate::contract::run(async {
                        let rig = $rig().await;
                        $crate::contract::store::$file::$rule(&rig).await;
                    });
                }
            )*
        }
    )*};
}

/// The one list of the rules, handed to the macro that is named: add a rule here, under the file it is in.
#[doc(hidden)]
#[macro_export]
macro_rules! store_rules {
    ([$($then:tt)*] $($with:tt)*) => { $($then)*! { [$($with)*]
@@LIST@@
    } };
}

/// A unit of work.
async fn begin(rig: &dyn StoreRig) -> Box<dyn UnitOfWork> {
    within("begin", rig.store().begin()).await.expect("a unit of work begins")
}

/// A view.
async fn view(rig: &dyn StoreRig) -> Box<dyn View> {
    within("view", rig.store().view()).await.expect("a view opens")
}

async fn commit(unit: Box<dyn UnitOfWork>) {
    within("commit", unit.commit()).await.expect("the unit commits");
}

/// Asserts that a write changed its row.
fn changes_one(changed: Result<Changed, StoreError>) {
    assert_eq!(changed.expect("the write is legal"), Changed::One);
}

/// Asserts that a write found no row to change, which is no error.
fn changes_none(changed: Result<Changed, StoreError>) {
    assert_eq!(changed.expect("finding no row is no error"), Changed::None);
}

/// Asserts that a unique key or an expectation was in the way.
fn is_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict { .. })), "expected a conflict, got {result:?}");
}

/// Runs statements in one unit and commits it.
macro_rules! in_unit {
    ($rig:expr, |$unit:ident| $($body:tt)*) => {{
        let mut $unit = $crate::contract::store::begin($rig).await;
        let out = { $($body)* };
        $crate::contract::store::commit($unit).await;
        out
    }};
}
pub(crate) use in_unit;
