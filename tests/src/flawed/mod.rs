//! Adapters that keep every promise of their port but one: what tests are tested with.

#![allow(
    missing_docs,
    clippy::wildcard_enum_match_arm,
    reason = "the names of flaws say it all; a flaw changes what it changes and nothing else"
)]

pub mod broker;
pub mod keys;
pub mod limiter;
pub mod store;
