//! Clock and random numbers of the operating system, behind the ports of the application.

#![warn(missing_docs)]

mod chance;
mod clock;

pub use chance::{NoEntropy, OsChance, secret_bytes};
pub use clock::{FollowingClock, SystemClock};
