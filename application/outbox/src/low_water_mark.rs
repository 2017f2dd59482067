//! Where a search of the lowest ids begins.
//!
//! While a transaction stays open in the database, PostgreSQL and InnoDB keep the dead versions of all rows that are settled
//! meanwhile, and a search from the lowest id reads all of them. Then searches begin at a mark, and a full search runs concurrently,
//! so that they need not wait for it.
//!
//! **Invariant:** the mark is a hint. A row below it, such as one whose transaction committed after those of greater ids, is
//! found by the next full search.

use std::time::Duration;

use tokio::time::Instant;

/// Time after which the mark follows the rows that are found: the transaction of a smaller id may commit this much later than
/// that of a greater one and still be found at once.
const WINDOW: Duration = Duration::from_secs(1);

/// A full search takes place after this multiple of the time that the last one took, at the earliest.
const PAUSE: u32 = 9;

/// A full search that has not ended after this time has failed.
const LONGEST_SEARCH: Duration = Duration::from_secs(60);

/// Where a search begins, and how many rows it may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchFrom {
    /// The lowest id; 0: everything is searched.
    pub id: i64,
    /// Number of rows that a full search has found below the mark. The search MUST NOT go on behind them: it would read the dead
    /// rows up to the mark.
    pub late: Option<u32>,
}

/// The mark of one search that is repeated.
#[derive(Debug)]
pub struct LowWaterMark {
    /// Lowest id that was found in the window before the last one.
    mark: i64,
    /// Lowest id that was found since then.
    lowest: Option<i64>,
    next_window: Instant,
    /// The rows below the mark that a full search has found.
    late: Option<SearchFrom>,
    next_full: Instant,
    /// A full search takes place until then at the latest.
    searching_until: Option<Instant>,
    interval: Duration,
    slow: Duration,
    /// Whether the last full search was slow.
    is_slow: bool,
}

impl LowWaterMark {
    /// Every search is a full one, unless the last full search took longer than `slow`. Then there is one every `interval`, or less
    /// often if it takes more than a tenth of the time.
    pub fn new(interval: Duration, slow: Duration) -> LowWaterMark {
        let now = Instant::now();
        LowWaterMark {
            mark: 0,
            lowest: None,
            next_window: now + WINDOW,
            late: None,
            next_full: now + interval,
            searching_until: None,
            interval,
            slow,
            is_slow: false,
        }
    }

    /// Where the next search begins.
    pub fn begin(&mut self) -> SearchFrom {
        let now = Instant::now();
        if now >= self.next_window {
            self.next_window = now + WINDOW;
            self.mark = self.lowest.take().unwrap_or(self.mark);
        }
        let late = self.late.take();
        match late {
            _ if !self.is_slow => SearchFrom { id: 0, late: None },
            Some(late) => {
                // There may be more of them.
                self.next_full = now;
                late
            }
            None => SearchFrom { id: self.mark, late: None },
        }
    }

    /// Records the lowest id that a search found, and how long it took.
    pub fn found(&mut self, from: SearchFrom, lowest: Option<i64>, took: Duration) {
        if from.late.is_some() {
            return;
        }
        if !self.is_slow && took >= self.slow {
            self.is_slow = true;
            self.next_full = Instant::now() + self.interval;
        }
        if let Some(lowest) = lowest {
            self.lowest = Some(self.lowest.map_or(lowest, |before| before.min(lowest)));
        }
    }

    /// Begins a full search, concurrent with the others, if it is time for it: returns the id below which its rows have not been found. It ends
    /// with [`searched`](LowWaterMark::searched) or [`not_searched`](LowWaterMark::not_searched).
    pub fn search_fully(&mut self) -> Option<i64> {
        let now = Instant::now();
        let is_searching = self.searching_until.is_some_and(|until| now < until);
        if !self.is_slow || is_searching || now < self.next_full {
            return None;
        }
        self.searching_until = Some(now + LONGEST_SEARCH);
        Some(self.mark)
    }

    /// Records the ids below the mark that a full search found, and how long it took.
    pub fn searched(&mut self, late: &[i64], took: Duration) {
        self.not_searched(took);
        self.is_slow = took >= self.slow || !late.is_empty();
        self.are_late(late);
    }

    /// Records that a full search failed, and after which time.
    pub fn not_searched(&mut self, took: Duration) {
        self.searching_until = None;
        self.next_full = Instant::now() + self.interval.max(took * PAUSE);
    }

    /// Has the next search begin at these rows, which may be below the mark.
    pub fn are_late(&mut self, ids: &[i64]) {
        if let Some(id) = ids.iter().copied().min() {
            self.late = Some(SearchFrom { id, late: Some(u32::try_from(ids.len()).unwrap_or(u32::MAX)) });
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
