//! Where a search of the lowest ids begins.
//!
//! While a transaction stays open in the database, PostgreSQL and InnoDB keep the dead versions of all rows that are settled
//! meanwhile, and a search from the lowest id reads all of them. Then the search begins at a mark.
//!
//! **Invariant:** the mark is a hint. A row below it, such as one whose transaction committed after those of greater ids, is
//! found by the next full search.

use std::time::Duration;

use tokio::time::Instant;

/// The mark of one search that is repeated.
#[derive(Debug)]
pub struct LowWaterMark {
    /// Lowest id that was found in the interval before the last full search.
    mark: i64,
    /// Lowest id that was found since then.
    lowest: Option<i64>,
    next_full: Instant,
    interval: Duration,
    slow: Duration,
    /// Whether the last full search was slow.
    is_slow: bool,
}

impl LowWaterMark {
    /// Full searches take place every `interval`, and always unless the last one took longer than `slow`.
    pub fn new(interval: Duration, slow: Duration) -> LowWaterMark {
        LowWaterMark { mark: 0, lowest: None, next_full: Instant::now(), interval, slow, is_slow: false }
    }

    /// The id from which the next search reads; 0 is a full search.
    pub fn begin(&mut self) -> i64 {
        let now = Instant::now();
        if now >= self.next_full {
            self.next_full = now + self.interval;
            self.mark = self.lowest.take().unwrap_or(0);
            return 0;
        }
        if self.is_slow { self.mark } else { 0 }
    }

    /// Records the lowest id that a search from this id found, and how long it took.
    pub fn found(&mut self, from_id: i64, lowest: Option<i64>, took: Duration) {
        if from_id == 0 {
            self.is_slow = took >= self.slow;
        }
        if let Some(lowest) = lowest {
            self.lowest = Some(self.lowest.map_or(lowest, |before| before.min(lowest)));
        }
    }

    /// Has everything searched after this time at the latest: a row that was not found yet may be below the mark.
    pub fn full_within(&mut self, time: Duration) {
        self.next_full = self.next_full.min(Instant::now() + time);
    }

    /// Forgets the mark, because other rows are searched from now on.
    pub fn reset(&mut self) {
        *self = LowWaterMark::new(self.interval, self.slow);
    }
}
