//! Faulty adapters: each breaks exactly one promise of its port. The self-tests of the contract suite use them.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "variants are named after the broken promise; a fault handles its own cases only"
)]

pub mod broker;
pub mod keys;
pub mod limiter;
pub mod store;
