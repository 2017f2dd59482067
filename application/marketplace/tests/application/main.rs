//! Tests of the application on the in-memory adapters, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue panics")]

mod assets;
mod cancellation;
mod consumers;
mod invoice_payments;
mod invoices;
mod metrics;
mod operations;
mod rate_limits;
mod relay;
mod support;
mod use_cases;
