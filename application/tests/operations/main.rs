//! What operators do and look at: each action happens once, is in the audit log once, and reaches nobody else's rows.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[allow(dead_code, reason = "the tests of the consumers use all of it")]
#[path = "../consumers/scripted.rs"]
mod scripted;
#[path = "../support/mod.rs"]
mod support;

mod broken;
mod carrier;
mod crashes;
mod discards;
mod looks;
mod operators;
mod redrives;
mod refusals;
mod releases;
mod replays;
mod stale_copies;
mod timelines;
