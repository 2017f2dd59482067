//! Order within an aggregate; independence of all others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;

use super::carrier::{Fate, carrier_by_id, willing};
use super::relay_on;
use crate::support::{World, millis, pass, sample, secs};

#[tokio::test(start_paused = true)]
async fn a_later_event_is_published_only_after_the_confirm_of_the_earlier_one() {
    let (broker, windows) = willing();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process
        .commit(vec![
            world.event("a-1", 1, &sample::created(1)),
            world.event("a-2", 2, &sample::paid(1)),
            world.event("b-1", 1, &sample::created(2)),
            world.event("a-3", 3, &sample::changed(1)),
            world.event("b-2", 2, &sample::paid(2)),
        ])
        .await;
    pass(millis(100)).await;
    // One window to the broker per step of any aggregate: its answer is in before the next is given.
    assert_eq!(windows.ids(), [vec!["a-1", "b-1"], vec!["a-2", "b-2"], vec!["a-3"]]);
}

#[tokio::test(start_paused = true)]
async fn events_go_by_their_aggregate_seq_whatever_the_order_of_their_rows() {
    let world = World::new().await;
    let (broker, windows) = willing();
    let process = world.process_on(broker);
    let late = vec![world.event("second", 2, &sample::paid(1)), world.event("first", 1, &sample::created(1))];
    process.commit(late).await;
    process.start_relay("relay-1", RelaySettings::default());
    pass(millis(100)).await;
    assert_eq!(windows.ids(), [["first"], ["second"]]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_waits_for_its_retry_holds_back_its_own_aggregate_alone() {
    let broken = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&broken);
    let (broker, windows) = carrier_by_id(move |id| match id {
        "a-1" if switch.load(Ordering::Relaxed) => Fate::Return,
        _ => Fate::Confirm,
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let a = |id: &str, seq| world.event(id, seq, &sample::changed(1));
    process.commit(vec![a("a-1", 1), a("a-2", 2), world.event("b-1", 1, &sample::changed(2))]).await;
    pass(secs(1)).await;
    process.commit(vec![a("a-3", 3), world.event("b-2", 2, &sample::changed(2))]).await;
    pass(secs(1)).await;
    assert_eq!(windows.ids().concat(), ["a-1", "b-1", "b-2"]);
    assert_eq!(world.status("a-2").await, OutboxStatus::New, "what is held back is not touched");
    broken.store(false, Ordering::Relaxed);
    pass(secs(4)).await;
    assert_eq!(windows.ids().concat(), ["a-1", "b-1", "b-2", "a-1", "a-2", "a-3"]);
}

async fn after_a_failed_one(on_failed: OnFailed) -> (OutboxStatus, Vec<String>) {
    let (broker, windows) = carrier_by_id(|id| if id == "a-1" { Fate::Return } else { Fate::Confirm });
    let settings = RelaySettings { on_failed, ..RelaySettings::default() };
    let (world, process) = relay_on(broker, settings).await;
    let a = |id: &str, seq| world.event(id, seq, &sample::changed(1));
    process.commit(vec![a("a-1", 1), a("a-2", 2)]).await;
    pass(secs(200)).await;
    assert_eq!(world.status("a-1").await, OutboxStatus::Failed);
    process.commit(vec![a("a-3", 3), world.event("b-1", 1, &sample::changed(2))]).await;
    pass(secs(20)).await;
    let later: BTreeSet<String> = windows.ids().concat().into_iter().filter(|id| id != "a-1").collect();
    (world.status("a-2").await, later.into_iter().collect())
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_lets_the_later_ones_go_on_by_default() {
    let (status, published) = after_a_failed_one(OnFailed::Continue).await;
    assert_eq!(status, OutboxStatus::Sent);
    assert_eq!(published, ["a-2", "a-3", "b-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_holds_its_aggregate_where_the_setting_says_so() {
    let (status, published) = after_a_failed_one(OnFailed::Hold).await;
    assert_eq!(status, OutboxStatus::New);
    assert_eq!(published, ["b-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_neither_holds_back_nor_is_held() {
    let refused = Arc::new(Mutex::new("t-1"));
    let refuses = Arc::clone(&refused);
    let (broker, windows) =
        carrier_by_id(move |id| if *refuses.lock().unwrap() == id { Fate::Return } else { Fate::Confirm });
    let settings = RelaySettings { on_failed: OnFailed::Hold, ..RelaySettings::default() };
    let (world, process) = relay_on(broker, settings).await;
    let timeout = sample::timeout(1, world.now());
    // A timeout that cannot go holds back nothing.
    process.commit(vec![world.event("t-1", 1, &timeout), world.event("a-2", 2, &sample::paid(1))]).await;
    pass(secs(1)).await;
    assert_eq!(world.status("a-2").await, OutboxStatus::Sent);
    assert_eq!(world.status("t-1").await, OutboxStatus::Retry);
    // Nor does an event that cannot go hold back a timeout.
    *refused.lock().unwrap() = "a-3";
    process.commit(vec![world.event("a-3", 3, &sample::changed(1)), world.event("t-4", 4, &timeout)]).await;
    pass(secs(1)).await;
    assert_eq!(world.status("t-4").await, OutboxStatus::Sent);
    assert_eq!(world.status("a-3").await, OutboxStatus::Retry);
    assert_eq!(windows.ids()[0], ["t-1", "a-2"], "and both go in one window");
}
