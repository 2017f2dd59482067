//! The contract of the outbox toolkit's ports `Store` and `Broker`: every sentence of their documentation that an adapter can
//! break, as a rule that fails. It knows no application; what an application keeps beside the outbox has a contract of its
//! own, made with the same macros (`marketplace-contract` is one).
//!
//! A rule is an `async fn` whose name states it. It gets a rig (a fresh adapter and what surrounds it), panics with what it
//! saw when the rule is broken, and never waits without a bound. [`contract!`] stamps one test per rule for an adapter;
//! [`store::RULES`] and [`broker::RULES`] list the rules for other ways of running them.
//!
//! An adapter of a third party needs this crate alone:
//!
//! ```ignore
//! use handover_contract::store::{StoreCapabilities, StoreRig};
//!
//! struct MyRig { /* the store, its wake-up notification, what has to be removed at the end */ }
//!
//! #[async_trait::async_trait]
//! impl StoreRig for MyRig { /* .. */ }
//!
//! async fn fresh() -> MyRig { /* an empty store for one rule */ }
//!
//! handover_contract::contract!(store, my_store, fresh);
//! ```
//!
//! **Invariant:** a rule asks for nothing that the port does not promise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken rule panics with what it saw; rules race tasks and play the broker's part"
)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

mod rules;

pub mod broker;
pub mod racing;
pub mod samples;
pub mod store;
pub mod work;

pub use rules::{RigFuture, Rule, RuleFuture, run, run_rule};

/// How long a rule waits for what must happen. A sound adapter needs milliseconds; a busy machine may need seconds, and a
/// rule that fails for that proves nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often [`eventually`] looks without a pause, so that it sees what lasts a moment only.
const QUICK_LOOKS: u32 = 200;

/// The longest pause between its later looks; they grow, so that what never happens is not looked for too often.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Whether there is time for the long variants (`tests/run --long`).
pub fn long() -> bool {
    std::env::var_os("HANDOVER_LONG").is_some()
}

/// The outcome of something that must happen within [`PATIENCE`].
pub async fn within<F: Future>(what: &str, work: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: nothing happened within {PATIENCE:?}"),
    }
}

/// Looks again and again until there is something to see, at most for [`PATIENCE`].
pub async fn eventually<T, F, L>(what: &str, mut look: F) -> T
where
    F: FnMut() -> L,
    L: Future<Output = Option<T>>,
{
    within(what, async {
        for _ in 0..QUICK_LOOKS {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::task::yield_now().await;
        }
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    })
    .await
}

/// Polls a future at most so many times, each time when it asks to be polled, and drops it: a caller that goes away.
/// `None` is a future that was dropped.
pub async fn cut_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    Cut { polls, future: Box::pin(future) }.await
}

struct Cut<F: Future> {
    polls: usize,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Cut<F> {
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

/// How often a future is cut at most before a sweep gives up: no adapter yields more often than this.
pub const MOST_POLLS: usize = 64;
