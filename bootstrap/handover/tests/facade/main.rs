//! Tests of the facade crate on SQLite, without a server.
//!
//! The suite `servers` of handover-tests has those on MariaDB, PostgreSQL and RabbitMQ.

mod build;
mod commands;
mod compiler;
mod consumers;
mod crashes;
mod enqueue;
mod examples;
mod gauges;
mod keys;
mod library;
mod mistakes;
mod operators;
mod own_store;
mod prefix;
mod readme;
mod retention;
mod routing;
mod selective;
mod start;
mod test_helpers;
mod traces;
