//! The mark at which a repeated search begins.

use std::time::Duration;

use handover_outbox::{LowWaterMark, SearchFrom};
use tokio::time::advance;

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

#[tokio::test(start_paused = true)]
async fn every_search_is_full_unless_one_was_slow() {
    let mut mark = LowWaterMark::new(INTERVAL, SLOW);
    for id in 1..5 {
        assert_eq!(mark.begin(), EVERYTHING);
        assert_eq!(mark.search_fully(), None);
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
async fn rows_below_the_mark_are_found_by_a_concurrent_full_search() {
    let mut mark = slow_mark(7).await;
    assert_eq!(mark.search_fully(), None, "there was one just now");
    advance(INTERVAL).await;
    assert_eq!(mark.search_fully(), Some(7));
    assert_eq!(mark.search_fully(), None, "one at a time");
    mark.searched(&[3, 2], SLOW);
    assert_eq!(mark.begin(), SearchFrom { id: 2, late: Some(2) });
    mark.found(SearchFrom { id: 2, late: Some(2) }, Some(2), SLOW / 2);
    assert_eq!(mark.begin(), at(7));
    assert_eq!(mark.search_fully(), Some(7), "there may be more of them");
    mark.searched(&[], SLOW / 2);
    assert_eq!(mark.begin(), EVERYTHING, "full searches are fast again");
}

#[tokio::test(start_paused = true)]
async fn full_searches_take_a_tenth_of_the_time_and_are_repeated_after_an_error() {
    let mut mark = slow_mark(7).await;
    mark.full_within(Duration::ZERO);
    assert_eq!(mark.search_fully(), Some(7));
    mark.searched(&[], 2 * SECOND);
    advance(17 * SECOND).await;
    assert_eq!(mark.search_fully(), None);
    advance(SECOND).await;
    assert_eq!(mark.search_fully(), Some(7));
    mark.not_searched(SLOW);
    advance(INTERVAL).await;
    assert_eq!(mark.search_fully(), Some(7));
    advance(59 * SECOND).await;
    assert_eq!(mark.search_fully(), None);
    advance(SECOND).await;
    assert_eq!(mark.search_fully(), Some(7), "the result of the last one never came");
}
