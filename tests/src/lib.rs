//! Shared code of the workspace's tests: rigs that run the contract suite (`handover-contract` and
//! `marketplace-contract`) on its adapters, faulty adapters, private servers, and helpers that start the shipped
//! program, call its API and read its database.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "test helpers panic with the observed value, run tasks concurrently and create confirms without a broker"
)]

pub mod canary;
pub mod client;
pub mod deployment;
pub mod differential;
pub mod faulty;
pub mod keys_rigs;
pub mod lent;
pub mod limiter_rigs;
pub mod market;
pub mod outbox_rig;
pub mod process;
pub mod rabbit_rigs;
pub mod random;
pub mod receiver;
pub mod rigs;
pub mod schema;
pub mod server_rigs;
pub mod servers;
pub mod snapshot;
pub mod upgrade;
pub mod versions;

pub use handover_contract::long;
