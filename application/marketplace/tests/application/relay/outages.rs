//! A broker that is away is nobody's failure.

use std::sync::Arc;

use handover_events::OutboxStatus;
use handover_outbox::ports::*;
use handover_outbox::{OnOutage, RelaySettings};
use marketplace::queues::WEBHOOK_QUEUE;

use super::carrier::{Fate, Slow, carrier, willing};
use super::relay_on;
use crate::support::{World, eventually, millis, pass, sample, secs};

/// The longest that an event may wait once the broker is back: the longest pause between probes, and a moment.
const BACK_WITHIN: std::time::Duration = millis(2_100);

#[tokio::test(start_paused = true)]
async fn an_outage_spends_no_attempt_and_the_event_goes_as_soon_as_the_broker_is_back() {
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
    eventually(BACK_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!(world.row("e-1").await.retry_count, 0);
}

#[tokio::test(start_paused = true)]
async fn an_outage_writes_each_waiting_row_once() {
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
async fn while_the_broker_takes_no_messages_the_outbox_is_left_as_it_is() {
    let world = World::new().await;
    let process = world.process();
    world.broker.set_blocked(Some("low on disk"));
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(secs(60)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count, row.last_error), (OutboxStatus::New, 0, None), "it was tried");
    world.broker.set_blocked(None);
    eventually(BACK_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_spends_no_attempt_and_is_published_again() {
    let answers = std::sync::atomic::AtomicU32::new(0);
    let (broker, windows) = carrier(move |window| {
        let lost = answers.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3;
        Ok(window.iter().map(|_| if lost { Fate::Unknown } else { Fate::Confirm }).collect())
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(millis(10)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count, row.next_retry_time), (OutboxStatus::Retry, 0, None));
    eventually(BACK_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!((windows.all().len(), world.row("e-1").await.retry_count), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_of_one_message_takes_nothing_from_the_confirms_beside_it() {
    let (broker, _) = carrier(|window| {
        let fate = |outgoing: &Outgoing| match outgoing.event_id().as_str() {
            "lost" => Fate::Unknown,
            _ => Fate::Confirm,
        };
        Ok(window.iter().map(fate).collect())
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
async fn where_an_outage_counts_it_is_a_failed_attempt_of_what_was_being_sent() {
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
async fn a_row_that_cannot_be_sent_is_charged_once_also_when_the_broker_is_away() {
    for on_outage in [OnOutage::Wait, OnOutage::Count] {
        let world = World::new().await;
        let process = world.process();
        world.broker.set_reachable(false);
        let bad = NewEvent { event_type: "ORDER_EATEN".into(), ..world.event("bad", 1, &sample::paid(1)) };
        process.commit(vec![bad, world.event("good", 1, &sample::paid(2))]).await;
        process.start_relay("relay-1", RelaySettings { on_outage, ..RelaySettings::default() });
        pass(secs(1)).await;
        let row = world.row("bad").await;
        assert_eq!(row.retry_count, 1, "{on_outage:?}");
        assert_eq!(row.last_error.as_deref(), Some("消息发送失败: 事件类型不支持: ORDER_EATEN"));
        pass(secs(200)).await;
        assert_eq!(world.status("bad").await, OutboxStatus::Failed, "{on_outage:?}");
        process.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_never_answers_is_away_after_the_confirm_timeout() {
    let world = World::new().await;
    let broker = Slow::first(&world.broker, secs(1_000_000));
    let process = world.process_on(Arc::clone(&broker) as Arc<dyn Broker>);
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(9_900)).await;
    assert_eq!(world.status("e-1").await, OutboxStatus::New);
    // Before the first probe finds it back.
    pass(millis(105)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Retry, 0));
    assert!(row.last_error.unwrap().contains("no confirm within 10s"));
    eventually(BACK_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 2, "nobody knew, so it was published again");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_only_makes_the_relay_wait() {
    let (broker, windows) = willing();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    process.faults.set_away(true);
    let before = process.faults.asked();
    pass(secs(120)).await;
    let asked = process.faults.asked() - before;
    assert!(asked < 200, "a store that is away is asked with growing pauses: {asked} times in 2 min");
    process.faults.set_away(false);
    eventually(BACK_WITHIN, async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert!(windows.all().len() <= 2);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_stops_waits_for_the_confirms_on_their_way_and_publishes_no_more() {
    let world = World::new().await;
    let process = world.process_on(Slow::each(&world.broker, secs(2), secs(2)));
    process.start_relay("relay-1", RelaySettings::default());
    let events = (1..=20).map(|seq| world.event(&format!("e-{seq}"), seq, &sample::changed(7)));
    process.commit(events.collect()).await;
    pass(millis(2_500)).await;
    let begun = tokio::time::Instant::now();
    process.app.tx.tasks.stop().await;
    assert!(begun.elapsed() <= secs(3), "{:?}", begun.elapsed());
    let sent: Vec<bool> = world.rows().await.iter().map(|row| row.status == OutboxStatus::Sent).collect();
    assert_eq!(sent, [[true; 2].as_slice(), &[false; 18]].concat());
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 2);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_stops_does_not_wait_long_for_a_broker_that_says_nothing() {
    let world = World::new().await;
    let process = world.process_on(Slow::each(&world.broker, secs(9), secs(9)));
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(500)).await;
    let begun = tokio::time::Instant::now();
    process.app.tx.tasks.stop().await;
    assert!(begun.elapsed() <= secs(4), "{:?}", begun.elapsed());
    assert_eq!(world.status("e-1").await, OutboxStatus::Retry, "nobody knows, so it is published again");
}
