//! The command line through the real binary: what a person reads and the exit code that a script sees; small market
//! days; and what the README, the pages in `bootstrap/docs` and `.deploy` show.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod closed;
mod configuration;
mod demo;
mod deploy;
mod doctor;
mod documents;
mod inspect;
mod letters;
mod links;
mod metrics;
mod operate;
mod pages;
mod program;
mod reconcile;
mod refunds;
mod refusals;
mod schemas;
mod tour;
