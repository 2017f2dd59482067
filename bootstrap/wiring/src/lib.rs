//! The composition root of the marketplace: configuration, choice of adapters, and the service life cycle.
//!
//! It contains no rules about orders or events. Only this crate decides which adapter implements which port, and in
//! which sequence components start and stop.

pub mod adapters;
pub mod config;
mod descriptors;
pub mod edge;
mod explanation;
pub mod failure;
mod jwks;
mod lock;
pub mod metrics;
mod reload;
pub mod secrets;
mod service;
pub mod sibling_file;
pub mod signals;
pub mod telemetry;
pub mod terminal;

pub use adapters::Database;
pub use explanation::Explanation;
pub use failure::{Exit, Failure};
pub use lock::DatabaseLock;
pub use reload::reload;
pub use secrets::Secrets;
pub use service::{Parts, Service};
