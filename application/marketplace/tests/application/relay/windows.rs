//! Windows: size, failures, and wake-up of the relay.

use std::collections::BTreeSet;
use std::time::Duration;

use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;
use marketplace::consumers::WEBHOOK_QUEUE;

use super::relay_on;
use super::test_brokers::{BrokerReply, confirming_broker, mock_broker};
use crate::support::{World, eventually, millis, pass, sample, secs};

#[tokio::test(start_paused = true)]
async fn only_the_20_unroutable_of_200_messages_stay_unsent() {
    let world = World::new().await;
    let process = world.process();
    world.unbind_changed();
    let is_unroutable = |number: i64| number % 10 == 3;
    let body = |number| if is_unroutable(number) { sample::changed(number) } else { sample::paid(number) };
    process.commit((1..=200).map(|n| world.event(&format!("e-{n}"), 1, &body(n))).collect()).await;
    process.start_relay("relay-1", RelaySettings::default());
    pass(secs(1)).await;
    for (number, row) in (1..).zip(world.rows().await) {
        let expected = if is_unroutable(number) { OutboxStatus::Retry } else { OutboxStatus::Sent };
        assert_eq!((row.status, row.retry_count), (expected, u32::from(is_unroutable(number))), "e-{number}");
    }
    assert!(world.broker.rebind(WEBHOOK_QUEUE, "order.status.changed"));
    pass(secs(5)).await;
    assert!(world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent));
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 200, "expected one message per event");
}

#[tokio::test(start_paused = true)]
async fn window_never_exceeds_the_batch_size() {
    let (broker, windows) = confirming_broker();
    let settings = RelaySettings { batch: 7.try_into().unwrap(), ..RelaySettings::default() };
    let (world, process) = relay_on(broker, settings).await;
    process.commit((1..=20).map(|n| world.event(&format!("e-{n}"), 1, &sample::paid(n))).collect()).await;
    pass(millis(100)).await;
    assert_eq!(windows.ids().iter().map(Vec::len).collect::<Vec<_>>(), [7, 7, 6]);
}

#[tokio::test(start_paused = true)]
async fn refused_window_is_published_one_by_one_and_only_the_rejected_event_spends_an_attempt() {
    let (broker, windows) = mock_broker(|window| {
        if window.iter().any(|outgoing| outgoing.event_id().as_str() == "rejected") {
            return Err(BrokerError::Refused { what: "the header is too long".into() });
        }
        Ok(window.iter().map(|_| BrokerReply::Confirm).collect())
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let events = [("a", 1), ("rejected", 2), ("b", 3)];
    process.commit(events.map(|(id, order)| world.event(id, 1, &sample::paid(order))).to_vec()).await;
    pass(millis(100)).await;
    for id in ["a", "b"] {
        let row = world.row(id).await;
        assert_eq!((row.status, row.retry_count), (OutboxStatus::Sent, 0), "{id}");
    }
    let rejected = world.row("rejected").await;
    assert_eq!((rejected.status, rejected.retry_count), (OutboxStatus::Retry, 1));
    assert_eq!(rejected.last_error.as_deref(), Some("消息发送失败: the header is too long"));
    assert_eq!(windows.ids(), [vec!["a", "rejected", "b"], vec!["a"], vec!["rejected"], vec!["b"]]);
    pass(secs(200)).await;
    assert_eq!(world.status("rejected").await, OutboxStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn broker_outage_between_single_publishes_spends_no_attempts() {
    let (broker, _) = mock_broker(|window| match window {
        [outgoing] if outgoing.event_id().as_str() == "a" => Ok(vec![BrokerReply::Confirm]),
        [_] => Err(BrokerError::Unreachable("connection refused".into())),
        _ => Err(BrokerError::Refused { what: "the window is too large".into() }),
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let events = [("a", 1), ("b", 2), ("c", 3)];
    process.commit(events.map(|(id, order)| world.event(id, 1, &sample::paid(order))).to_vec()).await;
    pass(secs(60)).await;
    assert_eq!(world.status("a").await, OutboxStatus::Sent);
    assert!(world.rows().await.iter().all(|row| row.retry_count == 0));
}

#[tokio::test(start_paused = true)]
async fn committed_event_is_published_without_waiting_for_the_scan() {
    let (broker, windows) = confirming_broker();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    pass(secs(12)).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    let elapsed = eventually(secs(5), async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert!(elapsed <= millis(10), "{elapsed:?}");
    assert_eq!(windows.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn event_committed_by_another_process_is_found_within_the_scan_interval() {
    let (broker, _) = confirming_broker();
    let (world, _publisher) = relay_on(broker, RelaySettings::default()).await;
    let other = world.process();
    for number in 1..=5 {
        pass(millis(1_700)).await;
        let id = format!("e-{number}");
        other.commit(vec![world.event(&id, 1, &sample::paid(number))]).await;
        eventually(secs(5), async || world.status(&id).await == OutboxStatus::Sent).await;
    }
}

#[tokio::test(start_paused = true)]
async fn idle_relay_rarely_queries_the_store() {
    let (broker, _) = confirming_broker();
    let (_world, process) = relay_on(broker, RelaySettings::default()).await;
    let before = process.faults.begun_units();
    pass(secs(60)).await;
    // The relay runs one unit of work per lease renewal, and renews a lease of 5 s after a third of this time.
    let ticks = process.faults.begun_units() - before;
    assert!((30..=40).contains(&ticks), "{ticks}");
}

#[tokio::test(start_paused = true)]
async fn events_of_concurrent_commits_are_all_published_exactly_once() {
    let (broker, windows) = confirming_broker();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let commits =
        (1..=300).map(|n| process.commit(vec![world.event(&format!("e-{n}"), 1, &sample::paid(n))]));
    futures_util::future::join_all(commits).await;
    eventually(secs(5), async || world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent)).await;
    let ids = windows.ids().concat();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (300, 300));
}

/// A search that begins at the low-water mark does not find a row whose transaction committed after those of greater ids;
/// the next full search does.
#[tokio::test(start_paused = true)]
async fn row_below_the_low_water_mark_is_published_within_the_scan_interval() {
    let (broker, _) = confirming_broker();
    let settings = RelaySettings { slow_search: Duration::ZERO, ..RelaySettings::default() };
    let (world, process) = relay_on(broker, settings).await;
    let mut late = process.app.tx.begin().await.unwrap();
    late.outbox().append(&[world.event("late", 1, &sample::paid(1))]).await.unwrap();
    process.commit(vec![world.event("first", 1, &sample::paid(2))]).await;
    pass(millis(5_500)).await;
    process.commit(vec![world.event("second", 1, &sample::paid(3))]).await;
    pass(millis(100)).await;
    for published in ["first", "second"] {
        assert_eq!(world.status(published).await, OutboxStatus::Sent, "{published}");
    }
    late.commit().await.unwrap();
    pass(millis(100)).await;
    assert_eq!(world.status("late").await, OutboxStatus::New, "the mark is not used");
    pass(secs(5)).await;
    assert_eq!(world.status("late").await, OutboxStatus::Sent);
}
