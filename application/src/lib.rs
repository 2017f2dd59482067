//! Ports, use cases, the outbox relay and the exactly-once consumers. Knows the domain, and nothing of the world.

mod context;
mod ids;
pub mod ports;
mod tasks;
pub mod topology;
mod transaction;
mod wake;

pub use context::{Actor, CommandContext, IdempotencyKey, Role, Trace};
pub use ids::{BLOCK, Ids, event_id};
pub use tasks::{MAX_UNITS, Tasks};
pub use transaction::{Attempt, BoxFuture, Transactor, TxPolicy, UnitError, with_tx};
pub use wake::Wake;
