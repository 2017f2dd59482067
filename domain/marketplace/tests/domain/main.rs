//! Tests of the domain rules: decisions, names, amounts, ids and payloads.
//!
//! Random cases use a new seed in each run, unless `PROPTEST_RNG_SEED` is set.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed precondition ends the test")]

mod common;
mod contract;

mod assets;
mod balance;
mod balance_model;
mod bodies;
mod coupon;
mod credit;
mod finding;
mod hold;
mod ids;
mod invoice;
mod keys;
mod money;
mod names;
mod order;
mod payload;
mod payment;
mod placing;
mod points;
mod product;
mod refund;
mod texts;
