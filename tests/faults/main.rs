//! The shipped program under faults: killed, stopped, crowded, kept waiting. What it answered must hold, every event
//! must take effect exactly once and in order, and the figures it promises are measured on the way.
//!
//! `HANDOVER_LONG=1` kills ten times as often and holds the figures to what is promised of a quiet machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod api;
mod check;
mod contention;
mod figures;
mod kill;
mod ledger;
mod load;
mod planted;
mod shutdown;
mod start;
mod timeout;
mod trace;

use std::time::Duration;

use handover_tests::process::{Fault, Launch};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Whether there is time for the long variants.
fn long() -> bool {
    std::env::var_os("HANDOVER_LONG").is_some()
}

static MACHINE: RwLock<()> = RwLock::const_new(());

/// A turn for a test that does not mind others beside it.
async fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// A turn for a test that measures: nothing else of ours runs.
async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// A folder of its own and the way to start the program in it.
fn fresh() -> (tempfile::TempDir, Launch) {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch::in_folder(folder.path());
    (folder, launch)
}

/// Asks again and again until the answer is `Ok`, or fails with the last refusal when the time is over.
async fn eventually<T>(within: Duration, mut ask: impl AsyncFnMut() -> Result<T, Fault>) -> T {
    let begun = std::time::Instant::now();
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(error) if begun.elapsed() > within => panic!("not within {within:?}: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
        }
    }
}
