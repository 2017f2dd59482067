//! The contract of the marketplace's ports `MarketStore`, `RateLimiter` and `IdempotencyStore`: each rule checks a
//! guarantee of their documentation. `handover-contract` contains the rules for the outbox; an adapter of the
//! marketplace's store must pass both suites.
//!
//! [`contract!`] generates one test per rule for an adapter; [`store::RULES`], [`limiter::RULES`] and [`keys::RULES`]
//! list the rules for other runners. The rig of a store implements [`MarketRig`](store::MarketRig) and, for its outbox,
//! `handover_contract::store::StoreRig`:
//!
//! ```ignore
//! handover_contract::contract!(store, my_outbox, fresh);
//! marketplace_contract::contract!(store, my_market, fresh);
//! ```
//!
//! **Invariant:** a rule requires nothing that the documentation of the port does not guarantee.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken rule panics with the observed value; rules run tasks concurrently and create confirms without a broker"
)]

pub mod keys;
pub mod limiter;
pub mod samples;
pub mod store;

#[doc(hidden)]
pub use handover_contract;

/// Generates one test per rule of a port's contract: `contract!(store, sqlite, sqlite_rig)` generates the tests
/// `sqlite::orders::order_is_isolated_by_tenant` and so on. The port is `store`, `limiter` or `keys`, and `sqlite_rig`
/// is an `async fn` or closure that returns a fresh rig.
#[macro_export]
macro_rules! contract {
    (store, $name:ident, $fresh:expr) => {
        $crate::handover_contract::contract_tests!(
            $name,
            dyn $crate::store::MarketRig,
            $fresh,
            $crate::store::RULES,
            $crate::store_rules
        );
    };
    (limiter, $name:ident, $fresh:expr) => {
        $crate::handover_contract::contract_tests!(
            $name,
            dyn $crate::limiter::LimiterRig,
            $fresh,
            $crate::limiter::RULES,
            $crate::limiter_rules
        );
    };
    (keys, $name:ident, $fresh:expr) => {
        $crate::handover_contract::contract_tests!(
            $name,
            dyn $crate::keys::KeysRig,
            $fresh,
            $crate::keys::RULES,
            $crate::keys_rules
        );
    };
}
