//! The contract of the marketplace's ports `MarketStore`, `RateLimiter` and `IdempotencyStore`: every sentence of their
//! documentation that an adapter can break, as a rule that fails. That of the outbox under them is `handover-contract`, an
//! adapter of the marketplace's store keeps both.
//!
//! [`contract!`] stamps one test per rule for an adapter; [`store::RULES`], [`limiter::RULES`] and [`keys::RULES`] list the
//! rules for other ways of running them. The rig of a store implements [`MarketRig`](store::MarketRig) and, for its outbox,
//! `handover_contract::store::StoreRig`:
//!
//! ```ignore
//! handover_contract::contract!(store, my_outbox, fresh);
//! marketplace_contract::contract!(store, my_market, fresh);
//! ```
//!
//! **Invariant:** a rule asks for nothing that the port does not promise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken rule panics with what it saw; rules race tasks and play the broker's part"
)]

pub mod keys;
pub mod limiter;
pub mod samples;
pub mod store;

#[doc(hidden)]
pub use handover_contract;

/// Stamps one test per rule of a port's contract: `contract!(store, sqlite, sqlite_rig)` makes the tests
/// `sqlite::orders::an_order_is_one_tenants` and so on. The port is `store`, `limiter` or `keys`, and `sqlite_rig` an
/// `async fn` or closure that returns a fresh rig.
#[macro_export]
macro_rules! contract {
    (store, $name:ident, $fresh:expr) => {
        $crate::handover_contract::stamp!(
            $name,
            dyn $crate::store::MarketRig,
            $fresh,
            $crate::store::RULES,
            $crate::store_rules
        );
    };
    (limiter, $name:ident, $fresh:expr) => {
        $crate::handover_contract::stamp!(
            $name,
            dyn $crate::limiter::LimiterRig,
            $fresh,
            $crate::limiter::RULES,
            $crate::limiter_rules
        );
    };
    (keys, $name:ident, $fresh:expr) => {
        $crate::handover_contract::stamp!(
            $name,
            dyn $crate::keys::KeysRig,
            $fresh,
            $crate::keys::RULES,
            $crate::keys_rules
        );
    };
}
