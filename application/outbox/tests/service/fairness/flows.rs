//! Tenants and event types whose events are published faster than the consumers apply them, without a backlog in the outbox: events
//! of others do not wait behind them in the queues.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handover_events::OutboxStatus;
use handover_outbox::ports::*;
use tokio::time::Instant;

use super::{Backlogged, Load};
use crate::library::{QUEUE, eventually};

/// Windows that are not full, of 10 events every 5 ms, while the consumer needs 1 ms per event.
#[tokio::test(start_paused = true)]
async fn event_does_not_wait_in_the_queue_behind_a_tenant_that_is_faster_than_the_consumer() {
    let backlogged = Backlogged::new(Load::Real).await;
    let consumer = backlogged.subscribe(20).await;
    backlogged.broker.permits.add_permits(10_000);
    backlogged.start_relay(200);
    let committing = async {
        for transaction in 0..400 {
            backlogged.append_backlog(transaction * 10 + 1..=transaction * 10 + 10).await;
            backlogged.library.outbox.sleep(Duration::from_millis(5)).await;
            if transaction == 200 {
                backlogged.library.commit(vec![backlogged.event(2, "BOOK_LENT", 1, 1)]).await;
            }
        }
    };
    let begun = Instant::now();
    let consuming = async {
        let mut consumed = 0_usize;
        let mut found_after = None;
        while consumed < 4_001 {
            let deliveries = consumer.next().await.unwrap();
            consumed += deliveries.len();
            let is_other =
                |delivery: &Delivery| delivery.message.headers.get("tenantId").is_some_and(|of| of == "2");
            if deliveries.iter().any(is_other) {
                found_after = Some(begun.elapsed());
            }
            backlogged.library.outbox.sleep(Duration::from_millis(deliveries.len() as u64)).await;
            let tags: Vec<_> = deliveries.iter().map(|delivery| delivery.tag).collect();
            consumer.ack(&tags).await.unwrap();
        }
        found_after.unwrap()
    };
    let (found_after, ()) = tokio::join!(consuming, committing);
    // It was committed after 1 s.
    assert!(found_after < Duration::from_millis(1_200), "{found_after:?}");
    // The consumer needs 4 s.
    assert!(begun.elapsed() < Duration::from_millis(4_400), "{:?}", begun.elapsed());
}

/// Commits twice 50 events, of one book each; returns the time after which they are published.
async fn publish_100(backlogged: &Backlogged, first: i64) -> Duration {
    let (begun, before) = (Instant::now(), backlogged.sent().await);
    for first in [first, first + 50] {
        backlogged.append_backlog(first..=first + 49).await;
        backlogged.library.outbox.sleep(Duration::from_millis(30)).await;
    }
    eventually(async || backlogged.sent().await == before + 100).await;
    begun.elapsed()
}

const HELD_BACK: Range<Duration> = Duration::from_millis(1_000)..Duration::from_millis(1_200);
const AT_ONCE: Range<Duration> = Duration::ZERO..Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn events_do_not_wait_for_a_long_queue_while_another_one_that_gets_them_has_room() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.broker.permits.add_permits(1_000);
    backlogged.broker.set_load(&[("fast", 0), ("slow", 100)]);
    backlogged.start_relay(200);
    for batch in 0..3 {
        let took = publish_100(&backlogged, batch * 100 + 1).await;
        assert!(AT_ONCE.contains(&took), "{took:?}");
    }
    assert!(backlogged.broker.load_calls.load(Ordering::Relaxed) > 2);
    backlogged.broker.set_load(&[("fast", 100), ("slow", 100)]);
    let took = publish_100(&backlogged, 301).await;
    assert!(HELD_BACK.contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_queues_without_progress_for_a_second_in_a_minute() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.broker.permits.add_permits(1_000);
    let full = [("one", 100), ("other", 200)];
    backlogged.broker.set_load(&full);
    backlogged.start_relay(200);
    let publish_100 = async |first, expected: Range<Duration>| {
        let took = publish_100(&backlogged, first).await;
        assert!(expected.contains(&took), "from {first}: {took:?}");
    };
    publish_100(1, HELD_BACK).await;
    for batch in 1..5 {
        publish_100(batch * 100 + 1, AT_ONCE).await;
    }
    backlogged.library.outbox.sleep(Duration::from_secs(60)).await;
    publish_100(501, HELD_BACK).await;
    backlogged.broker.set_load(&[("one", 0), ("other", 0)]);
    publish_100(601, AT_ONCE).await;
    backlogged.broker.set_load(&full);
    publish_100(701, HELD_BACK).await;
}

/// While consumers take 30 messages per second from a queue that stays full, half as many are published.
#[tokio::test(start_paused = true)]
async fn slow_progress_of_a_full_queue_lets_half_as_many_events_pass() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.broker.permits.add_permits(1_000);
    backlogged.broker.set_load(&[("queue", 500)]);
    backlogged.start_relay(200);
    backlogged.append_backlog(1..=50).await;
    backlogged.library.outbox.sleep(Duration::from_millis(500)).await;
    backlogged.append_backlog(51..=200).await;
    for tenth in 1..=40 {
        backlogged.broker.set_load(&[("queue", 500 - tenth * 3)]);
        backlogged.library.outbox.sleep(Duration::from_millis(100)).await;
    }
    let sent = backlogged.sent().await;
    assert!((50 + 3 * 13..=50 + 4 * 15).contains(&sent), "{sent}");
}

/// Others have an event in each of its searches, and a window in flight all the time.
#[tokio::test(start_paused = true)]
async fn events_that_are_held_back_do_not_starve_beside_others() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.broker.permits.add_permits(1);
    backlogged.broker.set_load(&[("queue", 100)]);
    backlogged.start_relay(200);
    backlogged.append_backlog(1..=50).await;
    backlogged.library.outbox.sleep(Duration::from_millis(100)).await;
    backlogged.append_backlog(51..=100).await;
    let mut sent_before = None;
    for tenant in 2..2_000 {
        backlogged.library.commit(vec![backlogged.event(tenant, "LOAN_EXPIRED", 1, 1)]).await;
        if tenant > 2 {
            backlogged.broker.permits.add_permits(1);
        }
        backlogged.library.outbox.sleep(Duration::from_millis(2)).await;
        if tenant == 400 {
            sent_before = Some(backlogged.library.row("1-100-1").await.status);
        }
    }
    assert_eq!(sent_before, Some(OutboxStatus::New), "the events of tenant 1 are held back at first");
    assert_eq!(backlogged.library.row("1-100-1").await.status, OutboxStatus::Sent);
}

#[tokio::test(start_paused = true)]
async fn load_of_queues_is_read_after_50_events_at_the_earliest() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.broker.permits.add_permits(1_000);
    backlogged.start_relay(200);
    for event in 1..=120 {
        backlogged.append_backlog(event..=event).await;
        backlogged.library.outbox.sleep(Duration::from_millis(10)).await;
        // The one after 50 events is read before the next search.
        let expected = usize::try_from((event - 1) / 50).unwrap();
        assert_eq!(backlogged.broker.load_calls.load(Ordering::Relaxed), expected, "after event {event}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_do_not_wait_for_a_queue_that_does_not_get_them() {
    let mut backlogged = Backlogged::new(Load::Real).await;
    backlogged.library.outbox = backlogged.library.outbox.clone().with_selective_queue(QUEUE);
    backlogged.broker.permits.add_permits(1_000);
    backlogged.broker.set_load(&[(QUEUE, 100)]);
    backlogged.start_relay(200);
    for (batch, is_idle) in (0..6).zip([true, true, true, false, false, false]) {
        let events = (batch * 50 + 1..=batch * 50 + 50).map(|book| {
            let event = backlogged.event(1, "BOOK_LENT", book, 1);
            let idle = if is_idle { vec!["loans"] } else { Vec::new() };
            NewEvent { idle_consumers: idle.into_iter().collect(), ..event }
        });
        backlogged.library.commit(events.collect()).await;
        backlogged.library.outbox.sleep(Duration::from_millis(30)).await;
    }
    assert!(backlogged.sent().await < 300, "events with work wait for the queue");
    assert!(backlogged.sent().await >= 150, "{} events are published", backlogged.sent().await);
}
