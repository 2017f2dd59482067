//! The mark at which a repeated search begins.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use handover_memory::VirtualClock;
use handover_outbox::ports::Clock as _;
use handover_outbox::{LowWaterMark, SearchFrom};
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_millis(20);
const EVERYTHING: SearchFrom = SearchFrom { id: 0, late: None };

fn at(id: i64) -> SearchFrom {
    SearchFrom { id, late: None }
}

/// A mark after a slow search, at this id.
async fn slow_mark(id: i64) -> LowWaterMark {
    let mut mark = LowWaterMark::new(INTERVAL, SLOW);
    mark.found(EVERYTHING, Some(id), SLOW);
    advance(SECOND).await;
    assert_eq!(mark.begin(), at(id));
    mark
}

/// The time that the database takes for a range of ids, and the late ids.
struct Table {
    dead: Range<i64>,
    per_dead_row: Duration,
    per_read: Duration,
    late: &'static [i64],
}

const CLEAN: Table =
    Table { dead: 0..0, per_dead_row: Duration::ZERO, per_read: Duration::from_millis(20), late: &[] };
/// Most ids that a read returns.
const LIMIT: usize = 2;

impl Table {
    async fn read(
        &self,
        clock: &VirtualClock,
        ids: Range<i64>,
    ) -> Result<(Vec<i64>, Duration), &'static str> {
        let dead = (self.dead.end.min(ids.end) - self.dead.start.max(ids.start)).max(0);
        let took = self.per_read + self.per_dead_row * u32::try_from(dead).unwrap();
        clock.sleep(took).await;
        Ok((self.late.iter().copied().filter(|id| ids.contains(id)).take(LIMIT).collect(), took))
    }

    /// Runs a full search, which must be due. Returns the ranges in the order in which they were read.
    async fn search(&self, mark: &Mutex<LowWaterMark>) -> Vec<Range<i64>> {
        let clock = clock();
        let ranges = Mutex::new(Vec::new());
        let read = |ids: Range<i64>| {
            ranges.lock().unwrap().push(ids.clone());
            self.read(&clock, ids)
        };
        let search = mark.lock().unwrap().full_search().unwrap();
        let has_found = search.run(mark, &clock, LIMIT, read).await.unwrap();
        assert_eq!(has_found, !self.late.is_empty());
        ranges.into_inner().unwrap()
    }
}

fn clock() -> VirtualClock {
    VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_search_is_full_unless_one_was_slow() {
    let mut mark = LowWaterMark::new(INTERVAL, SLOW);
    for id in 1..5 {
        assert_eq!(mark.begin(), EVERYTHING);
        assert!(mark.full_search().is_none());
        mark.found(EVERYTHING, Some(id), SLOW / 2);
        advance(INTERVAL).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mark_follows_the_rows_that_are_found_a_second_later() {
    let mut mark = slow_mark(7).await;
    mark.found(at(7), Some(9), SLOW / 2);
    assert_eq!(mark.begin(), at(7));
    advance(SECOND).await;
    assert_eq!(mark.begin(), at(9));
    mark.found(at(9), None, SLOW / 2);
    advance(SECOND).await;
    assert_eq!(mark.begin(), at(9), "nothing was found");
    mark.reset();
    assert_eq!(mark.begin(), EVERYTHING);
}

#[tokio::test(start_paused = true)]
async fn after_a_search_from_the_mark_failed_the_next_one_begins_behind_the_newest_row() {
    let mut mark = LowWaterMark::new(INTERVAL, SLOW);
    mark.failed(EVERYTHING, 9);
    assert_eq!(mark.begin(), at(10));
    assert!(mark.full_search().is_some(), "the rows below are searched at once");
    mark.failed(at(10), 20);
    assert_eq!(mark.begin(), at(21));
}

#[tokio::test(start_paused = true)]
async fn after_a_search_of_everything_the_next_one_begins_at_the_mark_or_below() {
    let mut mark = slow_mark(7).await;
    mark.reset();
    assert_eq!(mark.begin(), EVERYTHING);
    mark.failed(EVERYTHING, 20);
    assert_eq!(mark.begin(), at(7));
    mark.reset();
    mark.found(EVERYTHING, Some(3), SLOW);
    assert_eq!(mark.begin(), at(3));
}

#[tokio::test(start_paused = true)]
async fn rows_below_the_mark_are_found_by_a_concurrent_full_search() {
    let mut mark = slow_mark(5_000).await;
    assert!(mark.full_search().is_none(), "there was one just now");
    advance(INTERVAL).await;
    let running = mark.full_search();
    assert!(running.is_some() && mark.full_search().is_none(), "one at a time");
    advance(60 * SECOND).await;
    let mark = Mutex::new(mark);
    let ids = Table { late: &[10, 4_990, 4_995, 4_998], ..CLEAN }.search(&mark).await;
    assert_eq!(ids, [4_000..5_000, 4_996..5_000, 2_000..4_000, 0..2_000]);
    let mut marked = mark.into_inner().unwrap();
    for (id, late) in [(10, 1), (4_990, 2), (4_998, 1)] {
        let from = SearchFrom { id, late: Some(late) };
        assert_eq!(marked.begin(), from);
        marked.found(from, Some(id), SLOW / 2);
    }
    assert_eq!(marked.begin(), at(5_000));
    let mark = Mutex::new(marked);
    // There may be more of them, so the next one is due at once.
    CLEAN.search(&mark).await;
    assert_eq!(mark.lock().unwrap().begin(), EVERYTHING, "full searches are fast again");
}

/// 10 seconds of work for a million dead rows in a table of a hundred million.
#[tokio::test(start_paused = true)]
async fn full_search_reads_dead_rows_in_short_slices_for_a_tenth_of_the_time() {
    let newest = 100_000_000;
    let mark = Mutex::new(slow_mark(newest).await);
    advance(INTERVAL).await;
    let dead = newest - 1_000_000..newest;
    let per_dead_row = Duration::from_micros(10);
    let table = Table { dead: dead.clone(), per_dead_row, per_read: Duration::ZERO, late: &[] };
    let begun = Instant::now();
    let ranges = table.search(&mark).await;
    let took = begun.elapsed();
    assert_eq!((ranges[0].end, ranges.last().unwrap().start), (newest, 0));
    assert!(ranges.windows(2).all(|pair| pair[0].start == pair[1].end), "every id is read once");
    let of_dead = |ids: &Range<i64>| (ids.end - ids.start.max(dead.start)).max(0);
    assert!(ranges.iter().all(|ids| of_dead(ids) <= 2_000), "a slice takes at most 20 ms");
    assert!(ranges.len() < 700, "{}", ranges.len());
    assert!((99 * SECOND..101 * SECOND).contains(&took), "{took:?}");
    assert!(mark.lock().unwrap().full_search().is_none());
    advance(INTERVAL).await;
    assert!(mark.lock().unwrap().full_search().is_some());
}

/// For instance, a server in another building.
#[tokio::test(start_paused = true)]
async fn full_search_without_dead_rows_is_fast_although_each_read_takes_long() {
    let mark = Mutex::new(slow_mark(10_000_000).await);
    advance(INTERVAL).await;
    assert!(CLEAN.search(&mark).await.len() < 25);
    assert_eq!(mark.lock().unwrap().begin(), EVERYTHING);
}

#[tokio::test(start_paused = true)]
async fn full_search_is_repeated_after_an_error_and_when_a_row_becomes_due() {
    let mark = Mutex::new(slow_mark(7).await);
    advance(INTERVAL).await;
    let clock = clock();
    let search = mark.lock().unwrap().full_search().unwrap();
    let failed = search.run(&mark, &clock, LIMIT, async |_| Err("no connection")).await;
    assert_eq!(failed, Err("no connection"));
    let mut mark = mark.into_inner().unwrap();
    assert!(mark.full_search().is_none());
    mark.full_within(2 * SECOND);
    advance(SECOND).await;
    assert!(mark.full_search().is_none());
    advance(SECOND).await;
    let running = mark.full_search().unwrap();
    // A row becomes due in a slice that was read already.
    mark.full_within(SECOND);
    let mark = Mutex::new(mark);
    let table = Table { dead: 0..7, per_dead_row: SECOND, late: &[3], ..CLEAN };
    running.run(&mark, &clock, LIMIT, |ids| table.read(&clock, ids)).await.unwrap();
    assert!(mark.lock().unwrap().full_search().is_some());
}

#[tokio::test(start_paused = true)]
async fn full_search_that_began_before_a_reset_records_nothing() {
    let mark = Mutex::new(slow_mark(5_000).await);
    advance(INTERVAL).await;
    let running = mark.lock().unwrap().full_search().unwrap();
    mark.lock().unwrap().reset();
    let table = Table { late: &[10], ..CLEAN };
    let clock = clock();
    let has_found = running.run(&mark, &clock, LIMIT, |ids| table.read(&clock, ids)).await.unwrap();
    assert!(!has_found);
    let mut mark = mark.into_inner().unwrap();
    mark.found(EVERYTHING, Some(7), SLOW);
    advance(SECOND).await;
    assert_eq!(mark.begin(), at(7));
}
