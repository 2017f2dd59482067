//! Consumers after the deployment's clock was set back by five minutes.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;

use super::scripted::{Act, NAME, QUEUE, consuming};
use super::sweeps::write_unfinished_record;
use crate::support::{eventually, millis, pass, secs};

const BACK: TimeDelta = TimeDelta::minutes(-5);

#[tokio::test(start_paused = true)]
async fn attempt_interrupted_by_a_crash_is_repeated_after_the_clock_is_set_back() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    write_unfinished_record(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::seconds(12))).await;
    world.clock.set_skew(BACK);
    eventually(secs(30), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_event_is_applied_after_the_clock_is_set_back() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    write_unfinished_record(&world, "e-1", ConsumeStatus::Waiting, None).await;
    world.clock.set_skew(BACK);
    eventually(secs(30), async || world.effects(7).await == ["e-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_dated_before_the_subscription_are_applied_in_order() {
    let (world, process, _) =
        consuming(|ids, before| if ids[0] == "e-1" && before < 2 { Act::Fail } else { Act::Apply }).await;
    // The events get timestamps before the subscription of the consumer. They are applied nevertheless, because the
    // consumer compares outbox ids.
    world.clock.set_skew(BACK);
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(20)).await;
    world.commit_and_deliver(&process, "e-2", 7, 2).await;
    eventually(secs(30), async || world.effects(7).await.len() == 2).await;
    assert_eq!(world.effects(7).await, ["e-1", "e-2"]);
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn lost_event_after_a_clock_step_is_applied_from_the_outbox() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    // Waits until the low-water mark, below which no event is missing, has advanced.
    pass(secs(120)).await;
    world.clock.set_skew(BACK);
    pass(secs(20)).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.mark_sent_without_message(&["e-1"]).await;
    eventually(secs(90), async || world.effects(7).await == ["e-1"]).await;
}
