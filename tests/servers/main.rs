//! The adapters on real servers, started here: one server of each kind for all tests, and one of a test's own where the test
//! kills, stops or blocks it. The contract of the ports, the differential test, and what is particular to each server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "real servers run on real time, and a test fails with what it saw"
)]

mod contract;
mod databases;
mod differential;
mod limits;
mod rabbitmq;
