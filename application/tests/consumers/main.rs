//! The consumers: each event once, in the order of its aggregate, or parked where a person sees it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../support/mod.rs"]
mod support;

mod attempts;
mod carriers;
mod crashes;
mod extensions;
mod late;
mod order;
mod scripted;
mod shutdown;
mod standard;
mod strangers;
mod sweeps;
mod timeouts;
