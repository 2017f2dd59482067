//! Reads of all ids, slice by slice.
//!
//! While a transaction stays open in the database, PostgreSQL and InnoDB keep the dead versions of all rows that are settled
//! meanwhile. One statement over hundreds of thousands of them takes a second and delays everything else on a small machine. In
//! slices with pauses, the same work takes longer and delays nothing.

use std::ops::Range;
use std::time::Duration;

/// Number of ids of the first slice.
const FIRST_WIDTH: i64 = 1_000;

/// Fewest ids of a slice.
const LEAST_WIDTH: i64 = 100;

/// The read of a slice should take half of this time to twice this time.
const SLICE: Duration = Duration::from_millis(8);

/// The pause after a slice is this multiple of the time that it took.
const PAUSE: u32 = 9;

/// The slices of the ids below a bound, the greatest ids first: the dead rows are the newest ones, so that the slices become wider
/// below them, and few are needed for the rest.
#[derive(Debug)]
pub(crate) struct Slices {
    below: i64,
    width: i64,
    took: Duration,
}

impl Slices {
    /// The slices of all ids below this one.
    pub(crate) fn below(id: i64) -> Slices {
        Slices { below: id, width: FIRST_WIDTH, took: Duration::ZERO }
    }

    /// The ids of the next slice; `None` if all were read. The end is not part of it.
    pub(crate) fn next_ids(&self) -> Option<Range<i64>> {
        (self.below > 0).then(|| self.below.saturating_sub(self.width).max(0)..self.below)
    }

    /// Records that the next slice was read in this time. Returns the pause that must follow.
    pub(crate) fn was_read(&mut self, took: Duration) -> Duration {
        self.below = self.below.saturating_sub(self.width).max(0);
        if took < SLICE / 2 {
            self.width = self.width.saturating_mul(2);
            return took * PAUSE;
        }
        if took > SLICE * 2 {
            self.width = (self.width / 2).max(LEAST_WIDTH);
        }
        self.took += took;
        took * PAUSE
    }

    /// Time that the slices took so far, without the pauses and without those that could be wider.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }
}
