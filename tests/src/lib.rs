//! What the tests of this workspace share: the contract that every store and every broker has to keep, sample values to
//! test with, and the shipped program from outside: started, called, its database looked into. The contract is public: a
//! third party runs it on its own adapter (see `README.md`).

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
pub mod contract;
pub mod deployment;
pub mod flawed;
pub mod keys_rigs;
pub mod limiter_rigs;
pub mod market;
pub mod process;
pub mod rabbit_rigs;
pub mod rigs;
pub mod samples;
pub mod server_rigs;
pub mod servers;

/// Whether there is time for the long variants (`tests/run --long`).
pub fn long() -> bool {
    std::env::var_os("HANDOVER_LONG").is_some()
}
