//! The sweep applies events that have no delivery.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use tokio::time::Instant;

use super::scripted::{Act, NAME, QUEUE, Scripted, consuming};
use crate::support::{Process, World, eventually, first_record, millis, pass, secs};

/// Writes a consume-log record that belongs to no running attempt.
pub(super) async fn write_unfinished_record(
    world: &World,
    id: &str,
    status: ConsumeStatus,
    lease_until: Option<TimeDelta>,
) {
    let row = world.row(id).await;
    let consumption = Consumption {
        attempts: u32::from(status == ConsumeStatus::Processing),
        lease_until: lease_until.map(|left| world.now() + left),
        ..first_record(row, NAME, status, world.now())
    };
    let mut unit = world.store.begin().await.unwrap();
    unit.outbox().record(&[consumption]).await.unwrap();
    unit.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_event_without_a_delivery_is_applied_by_the_sweep() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    write_unfinished_record(&world, "e-1", ConsumeStatus::Waiting, None).await;
    eventually(secs(11), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
}

#[tokio::test(start_paused = true)]
async fn attempt_with_an_expired_lease_is_repeated_by_the_sweep() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    write_unfinished_record(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::seconds(12))).await;
    pass(millis(11_900)).await;
    assert!(world.effects(7).await.is_empty(), "the event was applied before the lease expired");
    eventually(secs(6), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn confirmed_event_that_the_broker_lost_is_applied_from_the_outbox() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    for seq in 1..=3 {
        world.commit_event(&process, &format!("e-{seq}"), 7, seq).await;
    }
    world.mark_sent_without_message(&["e-1", "e-2", "e-3"]).await;
    pass(secs(59)).await;
    assert!(
        world.effects(7).await.is_empty(),
        "the sweep must not apply events whose messages may still arrive"
    );
    eventually(secs(8), async || world.effects(7).await == ["e-1", "e-2", "e-3"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_purged_messages_are_applied_within_two_minutes() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let before = world.process();
    before.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    before.kill().await;
    let process = world.process();
    process.start_relay("relay-1", Default::default());
    for order in 1..=3_000 {
        world.commit_event(&process, &format!("e-{order}"), order, 1).await;
    }
    pass(secs(5)).await;
    assert_eq!(world.broker.purge(QUEUE), 3_000);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(120)).await;
    for order in 1..=3_000 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
    }
}

#[tokio::test(start_paused = true)]
async fn delivery_of_an_event_that_the_sweep_applied_is_ignored() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.mark_sent_without_message(&["e-1"]).await;
    pass(secs(120)).await;
    world.deliver(QUEUE, "e-1").await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn lost_event_that_fails_is_retried_and_dead_lettered() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.mark_sent_without_message(&["e-1"]).await;
    eventually(secs(150), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 4);
    assert_eq!(
        world.dead_letters().await.len(),
        1,
        "the event must be parked although no delivery was dead-lettered"
    );
}

/// The store rejects one of 250 events that were sent at the same time.
#[tokio::test(start_paused = true)]
async fn lost_event_that_the_store_rejects_holds_back_no_other_and_is_found_after_a_restart() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    process.faults.reject_records_of("e-1");
    for order in 1..=250 {
        world.commit_event(&process, &format!("e-{order}"), order, 1).await;
    }
    let events: Vec<String> = (1..=250).map(|order| format!("e-{order}")).collect();
    world.mark_sent_without_message(&events.iter().map(String::as_str).collect::<Vec<_>>()).await;
    pass(secs(150)).await;
    for order in 2..=250 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
    }
    world.commit_event(&process, "later", 251, 1).await;
    world.mark_sent_without_message(&["later"]).await;
    eventually(secs(90), async || world.effects(251).await == ["later"]).await;
    assert!(world.effects(1).await.is_empty());
    process.kill().await;
    let next = world.process();
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    next.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    eventually(secs(150), async || world.effects(1).await == ["e-1"]).await;
}

/// The stored position stays before the rejected event, so that it does not show that the clock was set back.
#[tokio::test(start_paused = true)]
async fn time_that_was_searched_before_the_clock_was_set_back_is_searched_again() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    process.faults.reject_records_of("rejected");
    world.commit_event(&process, "rejected", 7, 1).await;
    world.mark_sent_without_message(&["rejected"]).await;
    pass(secs(600)).await;
    world.clock.set_skew(TimeDelta::minutes(-5));
    world.commit_event(&process, "lost", 8, 1).await;
    world.mark_sent_without_message(&["lost"]).await;
    eventually(secs(90), async || world.effects(8).await == ["lost"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_were_lost_during_days_without_the_consumer_are_applied() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let before = world.process();
    before.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    before.kill().await;
    let process = world.process();
    for order in 1..=3 {
        pass(secs(86_400)).await;
        world.commit_event(&process, &format!("e-{order}"), order, 1).await;
        world.mark_sent_without_message(&[&format!("e-{order}")]).await;
    }
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    eventually(secs(80), async || world.effects(3).await == ["e-3"]).await;
    assert_eq!((world.effects(1).await.len(), world.effects(2).await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn sweep_skips_events_before_the_subscription() {
    let world = World::new().await;
    let process: Process = world.process();
    world.commit_event(&process, "old", 7, 1).await;
    world.mark_sent_without_message(&["old"]).await;
    pass(secs(1)).await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(600)).await;
    assert!(handler.calls().is_empty());
    // The delivery of a new event of the same order does not cause the old event to be applied.
    world.commit_and_deliver(&process, "new", 7, 2).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["new"]);
}

#[tokio::test(start_paused = true)]
async fn sweep_waiting_for_the_store_ends_when_its_process_stops() {
    let world = World::new().await;
    let process = world.process();
    let faults = process.faults.clone();
    let handler = Scripted::new(&world, move |_, _| {
        faults.set_unavailable(true);
        Act::Apply
    });
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    write_unfinished_record(&world, "e-1", ConsumeStatus::Waiting, None).await;
    eventually(secs(11), async || handler.calls().len() == 1).await;
    pass(millis(100)).await;
    let started = Instant::now();
    process.app.tx.tasks().stop().await;
    let elapsed = started.elapsed();
    assert!(elapsed < millis(100), "{elapsed:?}");
    assert!(world.effects(7).await.is_empty());
    let next = world.process();
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    next.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    eventually(secs(60), async || world.effects(7).await == ["e-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn idle_sweep_rarely_queries_the_store() {
    let (_world, process, _) = consuming(|_, _| Act::Apply).await;
    pass(secs(100)).await;
    let before = process.faults.calls();
    pass(secs(100)).await;
    let calls = process.faults.calls() - before;
    assert!(calls <= 100, "{calls} store calls in 100 s, expected at most 100");
}

#[tokio::test(start_paused = true)]
async fn unfinished_attempt_is_counted_when_a_later_event_triggers_its_retry() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    write_unfinished_record(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::seconds(-1))).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-1", "e-2"]);
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 2);
}
