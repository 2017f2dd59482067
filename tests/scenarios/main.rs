//! The acceptance scenarios of seed 000, one test per item of its sections 16 and 17 and named after it. The shipped
//! program is used as its users would, over HTTP; the database file is read and written directly only where 000 asks for
//! what no user can do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod s16_1_integration;
mod s16_2_flows;
mod s16_3_transactions;
mod s16_4_idempotence;
mod s16_4_reliability;
mod s17_fixed_data;
mod shop;
