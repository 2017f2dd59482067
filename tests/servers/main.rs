//! Tests of the adapters on real servers. All tests share one server of each kind; a test that kills, stops or blocks a
//! server starts its own. The tests cover the port contracts, the differential test, and behaviour specific to each
//! server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "real servers run in real time, and a test panics with the observed value"
)]

mod contract;
mod databases;
mod differential;
mod facade;
mod limits;
mod order_cost;
mod rabbitmq;
mod versions;
