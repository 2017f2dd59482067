//! The clock that consumers follow is set back by five minutes.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;

use super::scripted::{Act, NAME, QUEUE, consuming};
use super::sweeps::left_behind;
use crate::support::{eventually, millis, pass, secs};

const BACK: TimeDelta = TimeDelta::minutes(-5);

#[tokio::test(start_paused = true)]
async fn an_attempt_that_a_crash_left_is_made_again_by_the_next_sweeps() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    left_behind(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::seconds(12))).await;
    world.clock.set_skew(BACK);
    eventually(secs(30), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_event_is_taken_up_by_the_next_sweeps() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    left_behind(&world, "e-1", ConsumeStatus::Waiting, None).await;
    world.clock.set_skew(BACK);
    eventually(secs(30), async || world.effects(7).await == ["e-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_a_young_service_are_applied_in_order() {
    let (world, process, _) =
        consuming(|ids, before| if ids[0] == "e-1" && before < 2 { Act::Fail } else { Act::Apply }).await;
    // Before its consumer subscribed, by the time that they bear.
    world.clock.set_skew(BACK);
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(20)).await;
    world.arrived(&process, "e-2", 7, 2).await;
    eventually(secs(30), async || world.effects(7).await.len() == 2).await;
    assert_eq!(world.effects(7).await, ["e-1", "e-2"]);
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_broker_lost_after_the_step_is_applied_from_the_outbox() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    // Until the mark, up to which no event is missing, has moved.
    pass(secs(120)).await;
    world.clock.set_skew(BACK);
    pass(secs(20)).await;
    world.happened(&process, "e-1", 7, 1).await;
    world.pretend_sent(&["e-1"]).await;
    eventually(secs(90), async || world.effects(7).await == ["e-1"]).await;
}
