//! Tests of the HTTP API with the in-memory adapters.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod access;
mod apart;
mod assets;
mod client;
mod document;
mod document_answers;
mod document_page;
mod document_routes;
mod envelopes;
mod gifts;
mod inputs;
mod keys;
mod letters;
mod limits;
mod logs;
mod looks;
mod mine;
mod once;
mod once_afterwards;
mod operations;
mod orders;
mod payments;
mod privacy;
mod products;
mod reconciliations;
mod redrives;
mod refunds;
mod server;
mod shed;
mod shut;
mod timelines;
mod tokens;
mod traces;
mod world;
