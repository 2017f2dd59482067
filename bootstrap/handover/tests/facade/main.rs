//! Tests of the facade crate on SQLite, without a server.

mod build;
mod compiler;
mod consumers;
mod enqueue;
mod library;
mod mistakes;
mod operators;
mod readme;
mod start;
