//! What no delivery brings back is found all the same.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use tokio::time::Instant;

use super::scripted::{Act, NAME, QUEUE, Scripted, consuming};
use crate::support::{Process, World, eventually, first_record, millis, pass, secs};

/// A row of the log that nobody works on.
pub(super) async fn left_behind(
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
async fn a_waiting_event_that_nobody_comes_back_for_is_applied_by_the_sweep() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    left_behind(&world, "e-1", ConsumeStatus::Waiting, None).await;
    eventually(secs(11), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_whose_lease_has_ended_is_made_again_by_the_sweep() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    left_behind(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::seconds(12))).await;
    pass(millis(11_900)).await;
    assert!(world.effects(7).await.is_empty(), "until then it is its worker's");
    eventually(secs(6), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_event_that_the_broker_lost_is_applied_from_the_outbox() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    for seq in 1..=3 {
        world.happened(&process, &format!("e-{seq}"), 7, seq).await;
    }
    world.pretend_sent(&["e-1", "e-2", "e-3"]).await;
    pass(secs(59)).await;
    assert!(world.effects(7).await.is_empty(), "until then it may still come");
    eventually(secs(8), async || world.effects(7).await == ["e-1", "e-2", "e-3"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_purged_from_the_queue_is_applied_within_two_minutes() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let before = world.process();
    before.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    before.kill().await;
    let process = world.process();
    process.start_relay("relay-1", Default::default());
    for order in 1..=150 {
        world.happened(&process, &format!("e-{order}"), order, 1).await;
    }
    pass(secs(2)).await;
    assert_eq!(world.broker.purge(QUEUE), 150);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(120)).await;
    for order in 1..=150 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_late_and_not_lost_is_applied_once() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    world.pretend_sent(&["e-1"]).await;
    pass(secs(120)).await;
    world.deliver(QUEUE, "e-1").await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_event_that_fails_is_tried_again_and_ends_dead_and_parked() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    world.happened(&process, "e-1", 7, 1).await;
    world.pretend_sent(&["e-1"]).await;
    eventually(secs(150), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 4);
    assert_eq!(world.letters().await.len(), 1, "it is parked although no delivery died");
}

#[tokio::test(start_paused = true)]
async fn the_history_before_the_subscription_is_not_swept_up() {
    let world = World::new().await;
    let process: Process = world.process();
    world.happened(&process, "old", 7, 1).await;
    world.pretend_sent(&["old"]).await;
    pass(secs(1)).await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(600)).await;
    assert!(handler.calls().is_empty());
    // Nor does a new event of the same order bring it.
    world.arrived(&process, "new", 7, 2).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["new"]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_waits_for_its_store_ends_as_soon_as_its_process_is_to_stop() {
    let world = World::new().await;
    let process = world.process();
    let faults = process.faults.clone();
    let handler = Scripted::new(&world, move |_, _| {
        faults.set_away(true);
        Act::Apply
    });
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    world.happened(&process, "e-1", 7, 1).await;
    left_behind(&world, "e-1", ConsumeStatus::Waiting, None).await;
    eventually(secs(11), async || handler.calls().len() == 1).await;
    pass(millis(100)).await;
    let begun = Instant::now();
    process.app.tx.tasks.stop().await;
    let took = begun.elapsed();
    assert!(took < millis(100), "{took:?}");
    assert!(world.effects(7).await.is_empty());
    let next = world.process();
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    next.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    eventually(secs(60), async || world.effects(7).await == ["e-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_sweep_asks_the_store_seldom() {
    let (_world, process, _) = consuming(|_, _| Act::Apply).await;
    pass(secs(100)).await;
    let before = process.faults.asked();
    pass(secs(100)).await;
    let asked = process.faults.asked() - before;
    assert!(asked <= 100, "{asked} times in 100 s");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_never_ended_is_counted_before_it_runs_again_also_on_behalf_of_a_later_event() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    left_behind(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::seconds(-1))).await;
    world.arrived(&process, "e-2", 7, 2).await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-1", "e-2"]);
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 2);
}
