//! The composition root of the marketplace: its configuration, choice of adapters, and the service life cycle.
//!
//! It contains no rules about orders or events. Only this crate decides which adapter implements which port of the
//! marketplace; `handover-runtime` opens stores and brokers.

pub mod adapters;
mod doctor;
pub mod edge;
mod failure;
mod program;
mod reload;
pub mod secrets;
mod service;
pub mod settings;

pub use failure::MarketFailure;
pub use reload::reload;
pub use secrets::Secrets;
pub use service::{API, ROLES, Service, Starting};
