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

mod canaries;
mod contention;
mod figures;
mod kill;
mod overload;
mod shutdown;
mod start;
mod strangers;
mod timeout;
mod trace;

use handover_tests::process::{eventually, fresh};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::const_new(());

/// A turn for a test that does not mind others beside it.
async fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// A turn for a test that measures: nothing else of ours runs.
async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}
