//! What every process that uses handover needs around the application: settings, stores and brokers by URL, roles, start
//! and stop, logging, metrics, signals, terminal output, and the checks of `doctor`.
//!
//! Without the feature `process`, which is enabled by default: only terminal output, and errors with their explanations.

#![warn(missing_docs)]

mod explanation;
pub mod names;
pub mod terminal;

#[cfg(feature = "process")]
pub mod archive;
#[cfg(feature = "process")]
pub mod brokers;
#[cfg(feature = "process")]
pub mod config;
#[cfg(feature = "process")]
pub mod descriptors;
#[cfg(feature = "process")]
pub mod doctor;
#[cfg(feature = "process")]
pub mod failure;
#[cfg(feature = "process")]
pub mod http;
#[cfg(feature = "process")]
pub mod jwks;
#[cfg(feature = "process")]
mod lock;
#[cfg(feature = "process")]
pub mod metrics;
#[cfg(feature = "process")]
pub mod roles;
#[cfg(feature = "process")]
pub mod secrets;
#[cfg(feature = "process")]
pub mod settings;
#[cfg(feature = "process")]
pub mod sibling_file;
#[cfg(feature = "process")]
pub mod signals;
#[cfg(feature = "process")]
mod stop;
#[cfg(feature = "process")]
pub mod stores;
#[cfg(feature = "process")]
pub mod telemetry;
#[cfg(feature = "process")]
pub mod tokens;
#[cfg(feature = "process")]
pub mod webhooks;

pub use explanation::{Exit, Explained, Explanation};
#[cfg(feature = "process")]
pub use failure::Failure;
#[cfg(feature = "process")]
pub use lock::DatabaseLock;
#[cfg(feature = "process")]
pub use stop::Stop;
