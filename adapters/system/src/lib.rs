//! Clock and random numbers of the operating system, behind the ports of the application.

#![warn(missing_docs)]

mod clock;
mod random;

pub use clock::{FollowingClock, SystemClock};
pub use random::{EntropyError, OsRandom, secret_bytes};
