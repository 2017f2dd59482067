//! Graceful shutdown of a process.

use std::time::Duration;

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use marketplace::Settings;
use marketplace::service;
use tokio::time::Instant;

use super::scripted::{Act, NAME, QUEUE, Scripted, consuming};
use crate::support::{Process, World, millis, pass, secs};

async fn stop_duration(process: &Process) -> Duration {
    let started = Instant::now();
    process.app.tx.tasks.stop().await;
    started.elapsed()
}

#[tokio::test(start_paused = true)]
async fn idle_process_stops_at_once() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    pass(secs(30)).await;
    let elapsed = stop_duration(&process).await;
    assert!(elapsed < millis(100), "{elapsed:?}");
    let depths = handover_outbox::ports::Broker::queues(&world.broker).await.unwrap();
    assert!(depths.iter().all(|depth| depth.consumers == 0));
}

#[tokio::test(start_paused = true)]
async fn process_stops_soon_when_store_and_broker_are_unavailable() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    pass(secs(5)).await;
    process.faults.set_unavailable(true);
    world.broker.set_reachable(false);
    pass(secs(60)).await;
    let elapsed = stop_duration(&process).await;
    assert!(elapsed < secs(3), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn event_in_backoff_is_requeued_when_the_process_stops() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(300)).await;
    let elapsed = stop_duration(&process).await;
    assert!(elapsed < millis(100), "{elapsed:?}");
    let depth = world.depth(QUEUE).await;
    assert_eq!((depth.ready, depth.unacked, depth.consumers), (1, 0, 0));
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
}

#[tokio::test(start_paused = true)]
async fn hanging_attempt_ends_within_its_timeout_and_all_deliveries_are_requeued() {
    let (world, process, handler) = consuming(|_, _| Act::Hang).await;
    for order in 1..=30 {
        world.commit_and_deliver(&process, &format!("e-{order}"), order, 1).await;
    }
    pass(millis(100)).await;
    assert_eq!(handler.calls().len(), 1);
    let elapsed = stop_duration(&process).await;
    assert!(elapsed <= secs(11), "{elapsed:?}");
    let depth = world.depth(QUEUE).await;
    assert_eq!((depth.ready, depth.unacked), (30, 0));
}

#[tokio::test(start_paused = true)]
async fn requeued_deliveries_are_applied_once_by_the_next_process() {
    let (world, process, _) = consuming(|ids, _| if ids.len() > 1 { Act::Fail } else { Act::Apply }).await;
    for order in 1..=60 {
        world.commit_and_deliver(&process, &format!("e-{order}"), order, 1).await;
    }
    tokio::task::yield_now().await;
    stop_duration(&process).await;
    let next = world.process();
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    next.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(20)).await;
    for order in 1..=60 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
    }
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn process_stops_soon_under_continuous_failures() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    for order in 1..=200 {
        world.commit_and_deliver(&process, &format!("e-{order}"), order, 1).await;
    }
    pass(millis(450)).await;
    let elapsed = stop_duration(&process).await;
    assert!(elapsed < secs(1), "{elapsed:?}");
    let depth = world.depth(QUEUE).await;
    assert_eq!(depth.unacked, 0);
}
