//! The composition root: configuration, wiring, telemetry, command line.
//!
//! Nothing here decides anything about orders or events. What it knows alone: which adapter stands behind which port,
//! and in which order things start and end.

pub mod asyncapi;
mod beside;
pub mod cli;
pub mod commands;
pub mod config;
mod demo;
mod descriptors;
mod doctor;
mod edge;
mod failure;
mod keys;
mod lock;
mod metrics;
pub mod output;
mod process;
pub mod progress;
mod secrets;
mod service;
pub mod signals;
pub mod telemetry;
mod wiring;

pub use failure::{Exit, Failure};
pub use lock::DatabaseLock;
pub use process::main;
pub use secrets::Secrets;
pub use service::Service;
pub use wiring::Database;
