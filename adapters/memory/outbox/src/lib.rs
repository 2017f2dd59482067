//! In-memory store, broker, clocks and random numbers: faithful fakes for tests and the simulator.
//!
//! **Invariant:** behaviour that only this adapter has is a bug of this adapter. The shared contract suite is authoritative.
//!
//! **Invariant:** everything is deterministic: the same calls in the same order give the same results and the same wake-up
//! notifications. No entropy, no real time, no unordered maps.
//!
//! **Invariant:** every port call yields to the scheduler before its effect, so that tests cover races and cancellations.
//!
//! **Invariant:** no lock of a `std::sync::Mutex` is held across an await.

#![warn(missing_docs)]

#[cfg(feature = "store")]
mod archive;
mod broker;
mod clock;
mod random;
#[cfg(feature = "store")]
pub mod store;
mod yield_now;

#[cfg(feature = "store")]
pub use archive::MemoryArchive;
pub use broker::MemoryBroker;
pub use clock::{ManualClock, VirtualClock};
pub use random::SeededRandom;
#[cfg(feature = "store")]
pub use store::{MemoryStore, MemoryUnit};
