//! Shared code of the tests of this workspace: rigs that run the contract suite (`handover-contract` and
//! `marketplace-contract`) on its adapters, faulty adapters, private servers, and the shipped program from outside: started,
//! called, its database read.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken rule panics with what it saw; rules race tasks and play the broker's part"
)]

pub mod books;
pub mod canary;
pub mod chance;
pub mod client;
pub mod deployment;
pub mod differential;
pub mod flawed;
pub mod keys_rigs;
pub mod limiter_rigs;
pub mod market;
pub mod process;
pub mod rabbit_rigs;
pub mod rigs;
pub mod server_rigs;
pub mod servers;

pub use handover_contract::long;
