//! The order gate: earlier events of an aggregate are applied first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;

use super::scripted::{Act, NAME, QUEUE, consuming};
use crate::support::{World, event_id, eventually, millis, pass, secs};

/// Maximum time from the end of an earlier event (SUCCESS or DEAD) to the effects of the waiting events. It is shorter
/// than a sweep interval, so the sweep cannot have applied them.
const FOLLOW_UP_WITHIN: std::time::Duration = millis(100);

#[tokio::test(start_paused = true)]
async fn delivery_applies_undelivered_predecessors_of_its_event_from_the_outbox() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.commit_event(&process, "e-2", 7, 2).await;
    world.commit_and_deliver(&process, "e-3", 7, 3).await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-1", "e-2", "e-3"]);
    for id in ["e-2", "e-1"] {
        world.deliver(QUEUE, id).await;
    }
    pass(millis(50)).await;
    assert_eq!(
        world.effects(7).await,
        ["e-1", "e-2", "e-3"],
        "the later deliveries must be ignored as duplicates"
    );
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn retry_of_an_event_applies_its_predecessors_first() {
    let (world, process, _) =
        consuming(|ids, before| if ids[0] == "e-2" && before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    pass(millis(50)).await;
    // e-1 is committed after e-2: the retry of e-2 MUST apply e-1 first.
    world.commit_event(&process, "e-1", 7, 1).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1", "e-2"]);
}

#[tokio::test(start_paused = true)]
async fn later_events_are_acked_and_wait_during_a_backoff_and_are_applied_immediately_afterwards() {
    let (world, process, _) =
        consuming(|ids, before| if ids[0] == "e-1" && before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(20)).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    world.commit_and_deliver(&process, "e-3", 7, 3).await;
    pass(millis(20)).await;
    for id in ["e-2", "e-3"] {
        let record = world.log(NAME, id).await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Waiting, 0));
    }
    let depth = world.depth(QUEUE).await;
    assert_eq!((depth.ready, depth.unacked), (0, 1), "only the failed event may still be in the queue");
    eventually(millis(300), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Success))
        .await;
    eventually(FOLLOW_UP_WITHIN, async || world.effects(7).await == ["e-1", "e-2", "e-3"]).await;
    for id in ["e-2", "e-3"] {
        assert_eq!(world.log_status(NAME, id).await, Some(ConsumeStatus::Success));
    }
}

#[tokio::test(start_paused = true)]
async fn next_event_waits_for_an_earlier_event_that_was_never_delivered() {
    let (world, process, _) =
        consuming(|ids, before| if ids[0] == "e-1" && before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    pass(millis(100)).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    assert_eq!(world.log_status(NAME, "e-2").await, Some(ConsumeStatus::Waiting));
    assert!(world.is_drained(QUEUE).await);
    // The first event has no delivery: the sweep applies it, and then the second.
    eventually(secs(15), async || world.effects(7).await == ["e-1", "e-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn undelivered_event_behind_an_event_in_backoff_gets_no_record() {
    let (world, process, _) =
        consuming(|ids, before| if ids[0] == "e-1" && before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(20)).await;
    world.commit_event(&process, "e-2", 7, 2).await;
    world.commit_and_deliver(&process, "e-3", 7, 3).await;
    pass(millis(20)).await;
    assert_eq!(world.log_status(NAME, "e-2").await, None);
    assert_eq!(world.log_status(NAME, "e-3").await, Some(ConsumeStatus::Waiting));
    eventually(secs(2), async || world.effects(7).await == ["e-1", "e-2", "e-3"]).await;
}

#[tokio::test(start_paused = true)]
async fn next_event_is_applied_at_once_after_a_dead_event() {
    let (world, process, _) = consuming(|ids, _| if ids[0] == "e-1" { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(20)).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    eventually(secs(2), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)).await;
    eventually(FOLLOW_UP_WITHIN, async || world.effects(7).await == ["e-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_event_that_fails_is_retried() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(20)).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    world.commit_and_deliver(&process, "e-3", 7, 3).await;
    eventually(secs(60), async || world.effects(7).await == ["e-1", "e-2", "e-3"]).await;
    assert!(world.is_drained(QUEUE).await && world.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn event_failed_in_the_outbox_is_skipped_and_applied_when_it_is_delivered() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let mut unit = world.store.begin().await.unwrap();
    let failed = FailedPublish {
        event_id: event_id("e-1"),
        status: OutboxStatus::Failed,
        retry_count: 4,
        next_retry_time: None,
        error: "消息发送失败".into(),
    };
    unit.outbox().mark_failed(&[failed], world.now()).await.unwrap();
    unit.commit().await.unwrap();
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-2"]);
    assert_eq!(world.log(NAME, "e-1").await, None);
    // The failed event is delivered after a redrive, and is applied although a later event was applied before.
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-2", "e-1"]);
}

#[tokio::test(start_paused = true)]
async fn two_processes_preserve_the_order_of_one_aggregate() {
    let world = World::new().await;
    let failing = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&failing);
    let handler = super::scripted::Scripted::new(&world, move |ids, _| {
        if ids[0] == "e-1" && fails.load(Ordering::Relaxed) { Act::Fail } else { Act::Apply }
    });
    let a = world.process();
    let b = world.process();
    for process in [&a, &b] {
        process.start_consumer(&handler.subscriber(), Default::default()).await;
    }
    for seq in 1..=9 {
        world.commit_and_deliver(&a, &format!("e-{seq}"), 7, seq).await;
        pass(millis(13)).await;
        if seq == 6 {
            failing.store(false, Ordering::Relaxed);
        }
    }
    let expected: Vec<String> = (1..=9).map(|seq| format!("e-{seq}")).collect();
    eventually(secs(30), async || world.effects(7).await == expected).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_many_aggregates_arrive_complete_and_in_order_through_relay_and_broker() {
    let (world, process, _) =
        consuming(|ids, before| if before == 0 && ids[0].ends_with("-2") { Act::Fail } else { Act::Apply })
            .await;
    process.start_relay("relay-1", RelaySettings::default());
    for seq in 1..=4 {
        for order in 1..=40 {
            world.commit_event(&process, &format!("e-{order}-{seq}"), order, seq).await;
        }
    }
    for order in 1..=40 {
        let expected: Vec<String> = (1..=4).map(|seq| format!("e-{order}-{seq}")).collect();
        eventually(secs(30), async || world.effects(order).await == expected).await;
    }
}
