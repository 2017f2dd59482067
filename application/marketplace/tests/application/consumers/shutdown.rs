//! The end of a process that was asked to stop.

use std::time::Duration;

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use marketplace::Settings;
use marketplace::service::{self, Roles};
use tokio::time::Instant;

use super::scripted::{Act, NAME, QUEUE, Scripted, consuming};
use crate::support::{Process, World, millis, pass, secs};

async fn stopped(process: &Process) -> Duration {
    let begun = Instant::now();
    process.app.tx.tasks.stop().await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn an_idle_process_stops_at_once() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    pass(secs(30)).await;
    let took = stopped(&process).await;
    assert!(took < millis(100), "{took:?}");
    let depths = handover_outbox::ports::Broker::queues(&world.broker).await.unwrap();
    assert!(depths.iter().all(|depth| depth.consumers == 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_neighbours_are_away_stops_soon() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    pass(secs(5)).await;
    process.faults.set_away(true);
    world.broker.set_reachable(false);
    pass(secs(60)).await;
    let took = stopped(&process).await;
    assert!(took < secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_backs_off_is_returned_to_the_queue() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(300)).await;
    let took = stopped(&process).await;
    assert!(took < millis(100), "{took:?}");
    let depth = world.depth(QUEUE).await;
    assert_eq!((depth.ready, depth.unacked, depth.consumers), (1, 0, 0));
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_is_finished_within_its_timeout_and_what_was_not_begun_is_returned() {
    let (world, process, handler) = consuming(|_, _| Act::Hang).await;
    for order in 1..=30 {
        world.arrived(&process, &format!("e-{order}"), order, 1).await;
    }
    pass(millis(100)).await;
    assert_eq!(handler.calls().len(), 1);
    let took = stopped(&process).await;
    assert!(took <= secs(11), "{took:?}");
    let depth = world.depth(QUEUE).await;
    assert_eq!((depth.ready, depth.unacked), (30, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_process_returned_is_applied_once_by_the_next() {
    let (world, process, _) = consuming(|ids, _| if ids.len() > 1 { Act::Fail } else { Act::Apply }).await;
    for order in 1..=60 {
        world.arrived(&process, &format!("e-{order}"), order, 1).await;
    }
    tokio::task::yield_now().await;
    stopped(&process).await;
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
async fn a_flood_that_never_ends_does_not_keep_a_process_from_stopping() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    for order in 1..=200 {
        world.arrived(&process, &format!("e-{order}"), order, 1).await;
    }
    pass(millis(450)).await;
    let took = stopped(&process).await;
    assert!(took < secs(1), "{took:?}");
    let depth = world.depth(QUEUE).await;
    assert_eq!(depth.unacked, 0);
}
