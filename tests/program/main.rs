//! The shipped program over HTTP, as its users would use it: the acceptance scenarios of the seeds on the pairs of database
//! and broker that it is shipped for, the table of bad input, random requests from its OpenAPI document, and the market day
//! of `handover demo`.
//!
//! `HANDOVER_BIN` names the program. A test that stays green without servers has `sqlite_and_database`, `edge::`,
//! `market_day::` or `requests::` in its name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod edge;
mod market_day;
mod requests;
mod scenarios;
