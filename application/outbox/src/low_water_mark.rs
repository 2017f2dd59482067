//! Where a search of the lowest ids begins.
//!
//! While a transaction stays open in the database, PostgreSQL and InnoDB keep the dead versions of all rows that are settled
//! meanwhile, and a search from the lowest id reads all of them, or fails at the time limit for statements. Then searches begin at
//! a mark, and a full search runs concurrently, slice by slice, so that they need not wait for it.
//!
//! **Invariant:** the mark is a hint. A row below it, such as one whose transaction committed after those of greater ids, is
//! found by the next full search.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::Clock;
use crate::slices::Slices;

/// Time after which the mark follows the rows that are found: the transaction of a smaller id may commit this much later than
/// that of a greater one and still be found at once.
const WINDOW: Duration = Duration::from_secs(1);

/// A full search has failed if it has not continued for this time.
const LONGEST_READ: Duration = Duration::from_secs(60);

/// Where a search begins, and how many rows it may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchFrom {
    /// The lowest id; 0: everything is searched.
    pub id: i64,
    /// Number of rows that a slice of a full search has found below the mark. The search MUST NOT go on behind them: it would
    /// read the dead rows up to the mark.
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
    /// Rows below the mark that a full search has found, by slice: the lowest id and their number.
    late: BTreeMap<i64, u32>,
    next_full: Instant,
    /// Time at which a full search is needed although `next_full` is later.
    needed_at: Option<Instant>,
    /// A full search takes place until then at the latest.
    searching_until: Option<Instant>,
    /// Counts the calls of `reset`: a full search that began before one records nothing.
    resets: u64,
    interval: Duration,
    slow: Duration,
    /// Whether the last full search was slow or failed.
    is_slow: bool,
}

impl LowWaterMark {
    /// Every search is a full one, unless the last full search took longer than `slow` or [has failed](LowWaterMark::failed).
    /// Then there is a pause of `interval` between full searches. They take a tenth of the time, because a pause follows each slice.
    pub fn new(interval: Duration, slow: Duration) -> LowWaterMark {
        let now = Instant::now();
        LowWaterMark {
            mark: 0,
            lowest: None,
            next_window: now + WINDOW,
            late: BTreeMap::new(),
            next_full: now + interval,
            needed_at: None,
            searching_until: None,
            resets: 0,
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
        if !self.is_slow {
            self.late.clear();
            return SearchFrom { id: 0, late: None };
        }
        match self.late.pop_first() {
            Some((id, late)) => SearchFrom { id, late: Some(late) },
            None => SearchFrom { id: self.mark, late: None },
        }
    }

    /// The mark; 0: everything is searched.
    pub(crate) fn id(&self) -> i64 {
        if self.is_slow { self.mark } else { 0 }
    }

    /// Records the lowest id that a search found, and how long it took.
    pub fn found(&mut self, from: SearchFrom, lowest: Option<i64>, took: Duration) {
        if from.late.is_some() {
            if lowest.is_some() {
                // There may be more of them.
                self.full_within(Duration::ZERO);
            }
            return;
        }
        if !self.is_slow && took >= self.slow {
            self.is_slow = true;
            self.next_full = Instant::now() + self.interval;
            self.needed_at = None;
        }
        if let Some(lowest) = lowest {
            self.mark = self.mark.min(lowest);
            self.lowest = Some(self.lowest.map_or(lowest, |before| before.min(lowest)));
        }
    }

    /// Records that a search failed after a long time. A full search then reads everything slice by slice, and the next searches
    /// begin at the mark or, if this one began there, behind `newest`, the greatest id.
    pub fn failed(&mut self, from: SearchFrom, newest: i64) {
        if from.late.is_none() {
            if from.id == self.mark {
                self.mark = newest.saturating_add(1);
                self.lowest = None;
            }
            self.is_slow = true;
        }
        self.full_within(Duration::ZERO);
    }

    /// Begins a full search, concurrent with the others, if it is time for it.
    pub fn full_search(&mut self) -> Option<FullSearch> {
        let now = Instant::now();
        let is_searching = self.searching_until.is_some_and(|until| now < until);
        let is_needed = self.needed_at.is_some_and(|at| at <= now);
        if !self.is_slow || is_searching || !(is_needed || self.next_full <= now) {
            return None;
        }
        if is_needed {
            self.needed_at = None;
        }
        self.searching_until = Some(now + LONGEST_READ);
        Some(FullSearch { slices: Slices::below(self.mark), late: BTreeMap::new(), resets: self.resets })
    }

    /// Whether a full search must go on, after this pause.
    fn continues(&mut self, search: &FullSearch, pause: Duration) -> bool {
        if search.resets != self.resets {
            return false;
        }
        self.searching_until = Some(Instant::now() + pause + LONGEST_READ);
        true
    }

    /// Records the end of a full search.
    fn searched(&mut self, search: FullSearch, has_failed: bool) {
        if search.resets != self.resets {
            return;
        }
        self.searching_until = None;
        self.next_full = Instant::now() + self.interval;
        self.is_slow = has_failed || search.slices.slow() >= self.slow || !search.late.is_empty();
        self.late.extend(search.late);
    }

    /// Has one of the next searches begin at these rows, which may be below the mark.
    pub fn are_late(&mut self, ids: &[i64]) {
        if let Some(id) = ids.iter().copied().min() {
            self.late.insert(id, u32::try_from(ids.len()).unwrap_or(u32::MAX));
        }
    }

    /// Has everything searched after this time at the latest: a row that was not found yet may be below the mark.
    pub fn full_within(&mut self, time: Duration) {
        let at = Instant::now() + time;
        self.needed_at = Some(self.needed_at.map_or(at, |before| before.min(at)));
    }

    /// Has everything searched, because other rows are searched from now on. If this search fails, the next ones begin at the mark.
    pub fn reset(&mut self) {
        let Self { mark, resets, interval, slow, .. } = *self;
        *self = LowWaterMark { mark, resets: resets + 1, ..LowWaterMark::new(interval, slow) };
    }
}

/// A search of all ids below the mark, slice by slice.
#[derive(Debug)]
#[must_use]
pub struct FullSearch {
    slices: Slices,
    /// The ids that were found, by slice: the lowest one and their number.
    late: BTreeMap<i64, u32>,
    resets: u64,
}

impl FullSearch {
    /// Reads every slice and pauses after it. `read` is called with a range of ids, without its end, and returns the first
    /// `limit` ids that it finds there, smallest first, and the time that the database took. At the end, the next searches begin at
    /// these ids, smallest first. Returns whether there are any.
    pub async fn run<F, E>(
        mut self,
        mark: &Mutex<LowWaterMark>,
        clock: &dyn Clock,
        limit: usize,
        read: impl Fn(Range<i64>) -> F,
    ) -> Result<bool, E>
    where
        F: Future<Output = Result<(Vec<i64>, Duration), E>>,
    {
        while let Some(ids) = self.slices.next_ids() {
            let (found, took) = match read(ids).await {
                Ok(read) => read,
                Err(error) => {
                    lock(mark).searched(self, true);
                    return Err(error);
                }
            };
            if let Some(lowest) = found.first() {
                self.late.insert(*lowest, u32::try_from(found.len()).unwrap_or(u32::MAX));
            }
            let pause = match found.last() {
                Some(last) if found.len() >= limit => self.slices.was_read_up_to(*last, took),
                _ => self.slices.was_read(took),
            };
            if !lock(mark).continues(&self, pause) {
                return Ok(false);
            }
            clock.sleep(pause).await;
        }
        let has_found = !self.late.is_empty();
        lock(mark).searched(self, false);
        Ok(has_found)
    }
}

fn lock(mark: &Mutex<LowWaterMark>) -> MutexGuard<'_, LowWaterMark> {
    mark.lock().unwrap_or_else(PoisonError::into_inner)
}
