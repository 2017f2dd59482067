//! Contract tests of the outbox toolkit's ports `Store` and `Broker`: each rule checks a guarantee of their
//! documentation. The crate is independent of any application; the ports of an application have their
//! own contract, built with the same macros (for example `marketplace-contract`).
//!
//! A rule is an `async fn` whose name states the requirement. Its argument is a rig: a fresh adapter with its
//! environment. A rule panics if the adapter violates it, and its waits have a time limit. [`contract!`] generates
//! one test per rule for an adapter; [`store::RULES`] and [`broker::RULES`] list the rules for other ways of running
//! them.
//!
//! A third-party adapter needs only this crate:
//!
//! ```ignore
//! use handover_contract::store::{StoreCapabilities, StoreRig};
//!
//! struct MyRig { /* the store, its wake-up notification, resources to remove at the end */ }
//!
//! #[async_trait::async_trait]
//! impl StoreRig for MyRig { /* .. */ }
//!
//! async fn fresh() -> MyRig { /* an empty store for one rule */ }
//!
//! handover_contract::contract!(store, my_store, fresh);
//! ```
//!
//! [`faulty`] has brokers with one fault each, which wrap any broker: a rule of your own that none of them breaks checks nothing. Its
//! store fails at one call, before or after a commit or with an unknown outcome, or takes long.
//!
//! **Invariant:** a rule requires nothing that the port does not guarantee.

#![warn(missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a violated rule panics with the observed values; rules run tasks concurrently and create confirms without a broker"
)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

mod rules;

pub mod broker;
pub mod concurrency;
pub mod faulty;
pub mod samples;
pub mod store;
pub mod work;

pub use rules::{RigFuture, Rule, RuleFuture, run, run_rule};

/// Time limit of one wait. A correct adapter needs milliseconds; the limit is long enough for a busy machine,
/// so that a timeout indicates a defect.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of checks by [`eventually`] without a pause, so that short-lived states are observed.
const QUICK_CHECKS: u32 = 200;

/// Longest pause between checks after the first [`QUICK_CHECKS`]; the pause grows, to limit the number of checks.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Whether the long variants of tests are enabled (`tests/run --long`).
pub fn long() -> bool {
    std::env::var_os("HANDOVER_LONG").is_some()
}

/// Returns the output of a future that must complete within [`TIMEOUT`]; panics otherwise.
pub async fn within<F: Future>(what: &str, work: F) -> F::Output {
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not completed within {TIMEOUT:?}"),
    }
}

/// Repeats a check until it returns a value, at most for [`TIMEOUT`].
pub async fn eventually<T, F, C>(what: &str, mut check: F) -> T
where
    F: FnMut() -> C,
    C: Future<Output = Option<T>>,
{
    within(what, async {
        for _ in 0..QUICK_CHECKS {
            if let Some(seen) = check().await {
                return seen;
            }
            tokio::task::yield_now().await;
        }
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(seen) = check().await {
                return seen;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    })
    .await
}

/// Polls a future at most `polls` times and then drops it, like a cancelled caller. Waits for a wake-up before each
/// further poll. Returns `None` if the future was dropped before it completed.
pub async fn cancel_after_polls<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    CancelAfter { polls, future: Box::pin(future) }.await
}

struct CancelAfter<F: Future> {
    polls: usize,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for CancelAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Maximum number of polls in a cancellation test; the operation MUST complete within this number.
pub const MAX_POLLS: usize = 64;

/// Generates one test per rule of a port's contract: `contract!(store, sqlite, sqlite_rig)` generates
/// `sqlite::units::a_unit_of_work_reads_its_own_writes` and so on. The port is `store` or `broker`; `sqlite_rig` is an
/// `async fn` or closure that returns a fresh rig.
#[macro_export]
macro_rules! contract {
    (store, $name:ident, $fresh:expr) => {
        $crate::contract_tests!(
            $name,
            dyn $crate::store::StoreRig,
            $fresh,
            $crate::store::RULES,
            $crate::store_rules
        );
    };
    (broker, $name:ident, $fresh:expr) => {
        $crate::contract_tests!(
            $name,
            dyn $crate::broker::BrokerRig,
            $fresh,
            $crate::broker::RULES,
            $crate::broker_rules
        );
    };
}
