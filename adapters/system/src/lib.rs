//! Clock and random numbers of the operating system, behind the ports of the application, and a writer of log lines that
//! never blocks.

#![warn(missing_docs)]

mod clock;
mod line_writer;
mod random;

pub use clock::{FollowingClock, SystemClock};
pub use line_writer::{LOG_LINES_DROPPED, LineWriter, LineWriterOptions};
pub use random::{EntropyError, OsRandom, secret_bytes};
