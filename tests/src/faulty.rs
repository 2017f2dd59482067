//! Faulty adapters: each violates exactly one guarantee of its port. The self-tests of the contract suite use them.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "variants are named after the violated guarantee; a fault handles its own cases only"
)]

pub mod broker;
pub mod keys;
pub mod limiter;
pub mod store;
