//! The plainest code that can do the work of the store and the broker: what `handover bench` measures against.
//!
//! It does what anybody would write first with the same drivers: prepared statements, several rows in each, one
//! transaction, confirms awaited together. It keeps no order, has no leases, finds no duplicates, repairs nothing, and
//! gives up at the first error. Nothing that is to be relied on may use it.

mod engines;
mod error;
mod event;
mod queue;
mod session;
mod tables;

pub use error::BareError;
pub use event::{Event, Order, Placed};
pub use queue::{BareQueue, Delivered, Deliveries};
pub use session::Session;
