//! The baseline: the work of the toolkit, done directly with the drivers and timed step by step.
//!
//! It uses prepared statements with several rows each, one transaction per batch, and confirms awaited together. It has
//! no ordering, leases, detection of duplicates or repair, and stops at the first error, so no other code may use it.

mod connection;
mod error;
mod event;
mod rabbitmq;
mod statements;
mod tables;

pub(crate) use connection::{Connection, Driver};
pub use error::BaselineError;
pub use event::Event;
pub(crate) use event::{Appended, Order, WebhookDelivery};
pub(crate) use rabbitmq::RabbitConnection;
pub(crate) use tables::Description;
