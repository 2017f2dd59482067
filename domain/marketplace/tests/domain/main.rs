//! The rules of the domain: decisions, names, amounts, ids, and events as they are written and read.
//!
//! Random cases have a fresh seed in each run, unless `PROPTEST_RNG_SEED` names one.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on ends there")]

mod common;
mod contract;

mod assets;
mod balance;
mod balance_model;
mod bodies;
mod coupon;
mod credit;
mod hold;
mod ids;
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
mod refund_model;
mod texts;
