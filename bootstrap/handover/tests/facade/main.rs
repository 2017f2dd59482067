//! Tests of the facade crate on SQLite, without a server.

mod build;
mod consumers;
mod enqueue;
mod library;
mod mistakes;
mod start;
