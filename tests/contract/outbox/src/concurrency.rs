//! Runs units of work that a barrier starts at the same time, for the store of any application.
//!
//! A unit of work with a transient error is retried, as by `with_tx`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use handover_outbox::ports::{Changed, Store, StoreError, UnitOfWork};
use tokio::sync::Barrier;

use super::within;

/// Number of concurrent units of work.
pub const RACERS: usize = 8;

/// The statements of one unit of work, without its commit.
pub type Attempt<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Runs the work in [`RACERS`] concurrent units of work and returns the outcome of each. A conflict is an outcome and
/// is not retried.
pub async fn race<S, T, F>(store: &Arc<S>, work: F) -> Vec<Result<T, StoreError>>
where
    S: Store + ?Sized + 'static,
    T: Send + 'static,
    F: for<'u> Fn(&'u mut S::Unit, usize) -> Attempt<'u, T> + Send + Sync + 'static,
{
    let barrier = Arc::new(Barrier::new(RACERS));
    let work = Arc::new(work);
    let racers: Vec<_> = (0..RACERS)
        .map(|n| {
            let store = store.clone();
            let barrier = barrier.clone();
            let work = work.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                loop {
                    match attempt(store.as_ref(), n, work.as_ref()).await {
                        Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                        outcome => return outcome,
                    }
                }
            })
        })
        .collect();
    let mut outcomes = Vec::new();
    for racer in racers {
        outcomes.push(within("a racer", racer).await.expect("no racer panics"));
    }
    outcomes
}

async fn attempt<S, T, F>(store: &S, n: usize, work: &F) -> Result<T, StoreError>
where
    S: Store + ?Sized,
    F: for<'u> Fn(&'u mut S::Unit, usize) -> Attempt<'u, T>,
{
    let mut unit = store.begin().await?;
    let out = work(unit.as_mut(), n).await?;
    unit.commit().await?;
    Ok(out)
}

/// Asserts that exactly one unit of work changed its row and the others found no row to change; returns the
/// index of that unit of work.
pub fn one_changed(outcomes: Vec<Result<Changed, StoreError>>) -> usize {
    let changed: Vec<_> =
        outcomes.into_iter().map(|outcome| outcome.expect("the race must not cause an error")).collect();
    let winners: Vec<_> = (0..RACERS).filter(|n| changed[*n] == Changed::One).collect();
    assert_eq!(winners.len(), 1, "{changed:?}");
    winners[0]
}

/// Asserts that exactly one unit of work succeeded and the others had a conflict; returns the index of that unit
/// of work.
pub fn one_succeeded(outcomes: Vec<Result<(), StoreError>>) -> usize {
    let winners: Vec<_> = (0..RACERS).filter(|n| outcomes[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    for lost in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(lost, StoreError::Conflict { .. }), "{lost:?}");
    }
    winners[0]
}
