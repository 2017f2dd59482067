//! The composition root of the marketplace: configuration, adapters behind ports, and the life of a process that serves.
//!
//! Nothing here decides anything about orders or events. What it knows alone: which adapter stands behind which port,
//! and in which order things start and end.

pub mod adapters;
pub mod beside;
pub mod config;
mod descriptors;
pub mod edge;
pub mod failure;
mod keys;
mod lock;
pub mod metrics;
pub mod secrets;
mod service;
pub mod signals;
pub mod telemetry;
pub mod terminal;

pub use adapters::Database;
pub use failure::{Exit, Failure};
pub use lock::DatabaseLock;
pub use secrets::Secrets;
pub use service::{Parts, Service};
