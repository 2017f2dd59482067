//! The edge as a client meets it, on the memory adapters.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod envelopes;
mod inputs;
mod letters;
mod logs;
mod looks;
mod mine;
mod operations;
mod orders;
mod payments;
mod products;
mod redrives;
mod server;
mod timelines;
mod tokens;
mod traces;
mod world;
