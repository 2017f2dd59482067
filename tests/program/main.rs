//! The shipped program over HTTP: the acceptance scenarios of the seeds on the pairs of database and broker that it
//! ships with, the table of invalid input, random requests from its OpenAPI document, and the market day of
//! `handover demo`.
//!
//! `HANDOVER_BIN` is the path of the program. Tests that need no server have `sqlite_and_database`, `edge::`,
//! `market_day::` or `requests::` in their names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a failed check panics with the observed value, and real processes run in real time"
)]

mod edge;
mod market_day;
mod requests;
mod scenarios;
