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

/// Most ids of a slice: it may meet dead rows after many ids without any.
const LARGEST_WIDTH: i64 = 1_000_000;

/// The dead rows of a slice should take half of this time to twice this time.
const SLICE: Duration = Duration::from_millis(8);

/// The pause after a slice is this multiple of the time that it took.
const PAUSE: u32 = 9;

/// The slices of the ids below a bound, the greatest ids first: the dead rows are the newest ones, so that the slices become wider
/// below them, and few are needed for the rest.
#[derive(Debug)]
pub(crate) struct Slices {
    below: i64,
    width: i64,
    /// Where the slice goes on, if only its lower part was read.
    rest_from: Option<i64>,
    /// Time that any read takes, whatever its width: that of the fastest one so far.
    base: Option<Duration>,
    slow: Duration,
}

impl Slices {
    /// The slices of all ids below this one.
    pub(crate) fn below(id: i64) -> Slices {
        Slices { below: id, width: FIRST_WIDTH, rest_from: None, base: None, slow: Duration::ZERO }
    }

    /// The ids that are read next, without the end of the range; `None` if all were read.
    pub(crate) fn next_ids(&self) -> Option<Range<i64>> {
        (self.below > 0).then(|| self.rest_from.unwrap_or_else(|| self.start())..self.below)
    }

    fn start(&self) -> i64 {
        self.below.saturating_sub(self.width).max(0)
    }

    /// Records that the ids were read in this time. Returns the pause that must follow.
    pub(crate) fn was_read(&mut self, took: Duration) -> Duration {
        self.below = self.start();
        self.rest_from = None;
        let base = self.base.map_or(took, |base| base.min(took));
        self.base = Some(base);
        let of_rows = took - base;
        if of_rows < SLICE / 2 {
            self.width = self.width.saturating_mul(2).min(LARGEST_WIDTH);
        } else {
            self.slow += of_rows;
        }
        if of_rows > SLICE * 2 {
            self.width = (self.width / 2).max(LEAST_WIDTH);
        }
        took * PAUSE
    }

    /// Records that the ids were read in this time, but only up to `id`. Returns the pause that must follow.
    pub(crate) fn was_read_up_to(&mut self, id: i64, took: Duration) -> Duration {
        self.rest_from = Some(id.saturating_add(1));
        took * PAUSE
    }

    /// Time that dead rows took so far.
    pub(crate) fn slow(&self) -> Duration {
        self.slow
    }
}
