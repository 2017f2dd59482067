//! The use cases: what each does, whom it refuses, and that it happens once whatever the store answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../support/mod.rs"]
mod support;

mod contention;
mod orders;
mod payments;
mod queries;
mod repeats;
mod unknown_commits;
