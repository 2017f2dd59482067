//! Tests through the real binary: output and exit codes of the command line, short runs of `handover demo`, and the
//! contents of the README, the pages in `bootstrap/docs` and `.deploy`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod access;
mod archive;
mod backup;
mod configuration;
mod dead_letters;
mod demo;
mod deploy;
mod doctor;
mod documents;
mod erase;
mod inspect;
mod invoices;
mod links;
mod log;
mod log_codes;
mod metrics;
mod monitoring;
mod operators;
mod pages;
mod program;
mod reconcile;
mod redrive;
mod refunds;
mod schemas;
mod signals;
mod startup_errors;
mod tour;
mod webhooks;
