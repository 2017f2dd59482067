//! The mark at which a repeated search begins.

use std::time::Duration;

use handover_outbox::LowWaterMark;

#[tokio::test(start_paused = true)]
async fn search_begins_at_the_mark_between_full_searches_if_they_are_slow() {
    let second = Duration::from_secs(1);
    let slow = Duration::from_millis(20);
    let mut mark = LowWaterMark::new(second, slow);
    for (took, between) in [(slow, 7), (slow / 2, 0)] {
        mark.reset();
        assert_eq!(mark.begin(), 0);
        mark.found(0, Some(7), took);
        tokio::time::advance(second).await;
        assert_eq!(mark.begin(), 0);
        mark.found(0, Some(9), took);
        assert_eq!(mark.begin(), between);
        mark.full_within(Duration::ZERO);
        assert_eq!(mark.begin(), 0);
    }
}
