//! Money and goods: assets, refunds, and the jobs that keep them in step.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../support/mod.rs"]
mod support;

mod any_order;
mod gateway;
mod gifts;
mod locks;
mod market;
mod paying;
mod reaping;
mod reconciling;
mod refunds;
mod repairing;
