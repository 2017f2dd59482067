//! Outages of the broker and of the store. By default, an outage does not count as an attempt.

use std::sync::Arc;

use handover_events::OutboxStatus;
use handover_outbox::ports::*;
use handover_outbox::{OnOutage, RelaySettings};
use marketplace::consumers::WEBHOOK_QUEUE;

use super::relay_on;
use super::test_brokers::{BrokerReply, SlowBroker, confirming_broker, mock_broker};
use crate::support::{World, eventually, millis, pass, sample, secs};

/// Maximum delay of an event after broker or store is reachable again: the maximum pause between probes plus a margin.
const RECOVERED_WITHIN: std::time::Duration = millis(2_100);

#[tokio::test(start_paused = true)]
async fn broker_outage_spends_no_attempt_and_publishing_resumes_promptly() {
    let world = World::new().await;
    let process = world.process();
    world.broker.set_reachable(false);
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    for _ in 0..10 {
        pass(secs(60)).await;
        let row = world.row("e-1").await;
        assert_eq!((row.status, row.retry_count, row.next_retry_time), (OutboxStatus::Retry, 0, None));
        assert!(row.last_error.unwrap().starts_with("消息发送失败"));
    }
    world.broker.set_reachable(true);
    eventually(RECOVERED_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!(world.row("e-1").await.retry_count, 0);
}

#[tokio::test(start_paused = true)]
async fn broker_outage_updates_each_pending_row_once() {
    let world = World::new().await;
    let process = world.process();
    world.broker.set_reachable(false);
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(secs(5)).await;
    let first = world.row("e-1").await.update_time;
    pass(secs(300)).await;
    assert_eq!(world.row("e-1").await.update_time, first);
}

#[tokio::test(start_paused = true)]
async fn blocked_broker_leaves_the_outbox_unchanged() {
    let world = World::new().await;
    let process = world.process();
    world.broker.set_blocked(Some("low on disk"));
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(secs(60)).await;
    let row = world.row("e-1").await;
    assert_eq!(
        (row.status, row.retry_count, row.last_error),
        (OutboxStatus::New, 0, None),
        "the row must not change while the broker is blocked"
    );
    world.broker.set_blocked(None);
    eventually(RECOVERED_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_spends_no_attempt_and_is_published_again() {
    let publishes = std::sync::atomic::AtomicU32::new(0);
    let (broker, windows) = mock_broker(move |window| {
        let lost = publishes.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3;
        Ok(window.iter().map(|_| if lost { BrokerReply::Unknown } else { BrokerReply::Confirm }).collect())
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(millis(10)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count, row.next_retry_time), (OutboxStatus::Retry, 0, None));
    eventually(RECOVERED_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!((windows.all().len(), world.row("e-1").await.retry_count), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_of_one_message_does_not_affect_other_confirms() {
    let (broker, _) = mock_broker(|window| {
        let reply = |outgoing: &Outgoing| match outgoing.event_id().as_str() {
            "lost" => BrokerReply::Unknown,
            _ => BrokerReply::Confirm,
        };
        Ok(window.iter().map(reply).collect())
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let events = [("a", 1), ("lost", 2), ("b", 3)];
    process.commit(events.map(|(id, order)| world.event(id, 1, &sample::paid(order))).to_vec()).await;
    pass(millis(10)).await;
    assert_eq!(world.status("a").await, OutboxStatus::Sent);
    assert_eq!(world.status("b").await, OutboxStatus::Sent);
    assert_eq!(world.status("lost").await, OutboxStatus::Retry);
}

#[tokio::test(start_paused = true)]
async fn broker_outage_counts_as_a_failed_attempt_if_on_outage_is_count() {
    let world = World::new().await;
    let process = world.process();
    world.broker.set_reachable(false);
    process.start_relay("r", RelaySettings { on_outage: OnOutage::Count, ..RelaySettings::default() });
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(secs(1)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Retry, 1));
    pass(secs(200)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Failed, 4));
}

#[tokio::test(start_paused = true)]
async fn unpublishable_row_spends_one_attempt_during_a_broker_outage() {
    for on_outage in [OnOutage::Wait, OnOutage::Count] {
        let world = World::new().await;
        let process = world.process();
        world.broker.set_reachable(false);
        let bad = NewEvent { event_type: "ORDER_UNKNOWN".into(), ..world.event("bad", 1, &sample::paid(1)) };
        process.commit(vec![bad, world.event("good", 1, &sample::paid(2))]).await;
        process.start_relay("relay-1", RelaySettings { on_outage, ..RelaySettings::default() });
        pass(secs(1)).await;
        let row = world.row("bad").await;
        assert_eq!(row.retry_count, 1, "{on_outage:?}");
        assert_eq!(row.last_error.as_deref(), Some("消息发送失败: 事件类型不支持: ORDER_UNKNOWN"));
        pass(secs(200)).await;
        assert_eq!(world.status("bad").await, OutboxStatus::Failed, "{on_outage:?}");
        process.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn silent_broker_counts_as_unreachable_after_the_confirm_timeout() {
    let world = World::new().await;
    let broker = SlowBroker::first(&world.broker, secs(1_000_000));
    let process = world.process_on(Arc::clone(&broker) as Arc<dyn Broker>);
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(9_900)).await;
    assert_eq!(world.status("e-1").await, OutboxStatus::New);
    // The confirm timeout has passed, but the first probe has not reached the broker yet.
    pass(millis(105)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Retry, 0));
    assert!(row.last_error.unwrap().contains("no confirm within 10s"));
    eventually(RECOVERED_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!(
        world.depth(WEBHOOK_QUEUE).await.ready,
        2,
        "expected two messages, because a row of unknown outcome is published again"
    );
}

#[tokio::test(start_paused = true)]
async fn store_outage_pauses_the_relay_with_backoff() {
    let (broker, windows) = confirming_broker();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    process.faults.set_unavailable(true);
    let before = process.faults.calls();
    pass(secs(120)).await;
    let calls = process.faults.calls() - before;
    assert!(calls < 200, "{calls} store calls in 2 min, expected fewer than 200 because of the backoff");
    process.faults.set_unavailable(false);
    eventually(RECOVERED_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert!(windows.all().len() <= 2);
}

#[tokio::test(start_paused = true)]
async fn stopping_relay_waits_for_outstanding_confirms_and_publishes_nothing_more() {
    let world = World::new().await;
    let process = world.process_on(SlowBroker::each(&world.broker, secs(2), secs(2)));
    process.start_relay("relay-1", RelaySettings::default());
    let events = (1..=20).map(|seq| world.event(&format!("e-{seq}"), seq, &sample::changed(7)));
    process.commit(events.collect()).await;
    pass(millis(2_500)).await;
    let started = tokio::time::Instant::now();
    process.app.tx.tasks().stop().await;
    assert!(started.elapsed() <= secs(3), "{:?}", started.elapsed());
    let sent: Vec<bool> = world.rows().await.iter().map(|row| row.status == OutboxStatus::Sent).collect();
    assert_eq!(sent, [[true; 2].as_slice(), &[false; 18]].concat());
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 2);
}

#[tokio::test(start_paused = true)]
async fn stopping_relay_does_not_wait_long_for_a_silent_broker() {
    let world = World::new().await;
    let process = world.process_on(SlowBroker::each(&world.broker, secs(9), secs(9)));
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(500)).await;
    let started = tokio::time::Instant::now();
    process.app.tx.tasks().stop().await;
    assert!(started.elapsed() <= secs(4), "{:?}", started.elapsed());
    assert_eq!(
        world.status("e-1").await,
        OutboxStatus::Retry,
        "a row of unknown outcome must be scheduled for another publish"
    );
}
