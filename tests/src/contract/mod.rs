//! The contract of the ports: every sentence of their documentation that an adapter can break, as a rule that fails.
//!
//! A rule is an `async fn` whose name states it. It gets a fresh rig, panics with what it saw when the rule is broken,
//! and never waits without a bound. [`store_contract!`](crate::store_contract),
//! [`broker_contract!`](crate::broker_contract), [`limiter_contract!`](crate::limiter_contract) and
//! [`keys_contract!`](crate::keys_contract) stamp one test per rule for an adapter; [`store::RULES`], [`broker::RULES`],
//! [`limiter::RULES`] and [`keys::RULES`] list them for those who want to run them otherwise.
//!
//! **Invariant:** a rule asks for nothing that the port does not promise.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub mod broker;
pub mod keys;
pub mod limiter;
pub mod store;

/// How long a rule waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// No rule runs longer.
const LONGEST_RULE: Duration = Duration::from_secs(60);

/// What a registered rule returns.
pub type RuleFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs one rule to its end, in a runtime of its own; what the macros put into each test.
pub fn run(rule: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LONGEST_RULE, rule).await.expect("the rule ends") });
    runtime.shutdown_timeout(PATIENCE);
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
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::task::yield_now().await;
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
pub(crate) const MOST_POLLS: usize = 64;
