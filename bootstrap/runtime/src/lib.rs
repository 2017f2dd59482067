//! What every process that uses handover needs around the application: settings, stores and brokers by URL, roles, start
//! and stop, logging, metrics, signals, terminal output, and the checks of `doctor`.

#![warn(missing_docs)]

pub mod brokers;
pub mod config;
pub mod descriptors;
pub mod doctor;
mod explanation;
pub mod failure;
pub mod http;
pub mod jwks;
mod lock;
pub mod metrics;
pub mod names;
pub mod roles;
pub mod secrets;
pub mod settings;
pub mod sibling_file;
pub mod signals;
mod stop;
pub mod stores;
pub mod telemetry;
pub mod terminal;
pub mod webhooks;

pub use explanation::{Exit, Explained, Explanation};
pub use failure::Failure;
pub use lock::DatabaseLock;
pub use stop::Stop;
