//! The store, the broker, clocks and chance in memory: honest fakes for tests and the simulator.
//!
//! **Invariant:** a behaviour that exists only here is a bug here. The shared contract suite decides, not this code.
//!
//! **Invariant:** everything is deterministic: the same calls in the same order give the same answers, bytes and
//! wake-ups. No random numbers, no real time, no maps without order.
//!
//! **Invariant:** every port call yields to the scheduler before its effect, so that races and cancellations happen.
//!
//! **Invariant:** no lock of a `std::sync::Mutex` is held across an await.

mod broker;
mod chance;
mod clock;
#[cfg(feature = "store")]
pub mod store;
mod turn;

pub use broker::MemoryBroker;
pub use chance::SeededChance;
pub use clock::{ManualClock, VirtualClock};
#[cfg(feature = "store")]
pub use store::{MemoryStore, MemoryUnit};
