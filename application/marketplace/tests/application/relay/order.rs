//! Order within an aggregate, and independence of other aggregates.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;

use super::test_brokers::{BrokerReply, confirming_broker, mock_broker_by_id};
use super::{relay_on, relay_with};
use crate::support::{World, millis, pass, sample, secs};

#[tokio::test(start_paused = true)]
async fn later_event_is_published_only_after_the_confirm_of_the_earlier_one() {
    let (broker, windows) = confirming_broker();
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
    // Each window contains at most one event per aggregate, and its confirms arrive before the next window is
    // published.
    assert_eq!(windows.ids(), [vec!["a-1", "b-1"], vec!["a-2", "b-2"], vec!["a-3"]]);
}

#[tokio::test(start_paused = true)]
async fn events_are_published_by_aggregate_seq_and_not_by_row_order() {
    let world = World::new().await;
    let (broker, windows) = confirming_broker();
    let process = world.process_on(broker);
    let late = vec![world.event("second", 2, &sample::paid(1)), world.event("first", 1, &sample::created(1))];
    process.commit(late).await;
    process.start_relay("relay-1", RelaySettings::default());
    pass(millis(100)).await;
    assert_eq!(windows.ids(), [["first"], ["second"]]);
}

#[tokio::test(start_paused = true)]
async fn event_awaiting_retry_blocks_only_its_own_aggregate() {
    let failing = Arc::new(AtomicBool::new(true));
    let is_failing = Arc::clone(&failing);
    let (broker, windows) = mock_broker_by_id(move |id| match id {
        "a-1" if is_failing.load(Ordering::Relaxed) => BrokerReply::Return,
        _ => BrokerReply::Confirm,
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let a = |id: &str, seq| world.event(id, seq, &sample::changed(1));
    process.commit(vec![a("a-1", 1), a("a-2", 2), world.event("b-1", 1, &sample::changed(2))]).await;
    pass(secs(1)).await;
    process.commit(vec![a("a-3", 3), world.event("b-2", 2, &sample::changed(2))]).await;
    pass(secs(1)).await;
    assert_eq!(windows.ids().concat(), ["a-1", "b-1", "b-2"]);
    assert_eq!(world.status("a-2").await, OutboxStatus::New, "a blocked row must not change");
    failing.store(false, Ordering::Relaxed);
    pass(secs(4)).await;
    assert_eq!(windows.ids().concat(), ["a-1", "b-1", "b-2", "a-1", "a-2", "a-3"]);
}

async fn publish_after_a_failed_event(on_failed: OnFailed) -> (OutboxStatus, Vec<String>) {
    let (broker, windows) =
        mock_broker_by_id(|id| if id == "a-1" { BrokerReply::Return } else { BrokerReply::Confirm });
    let (world, process) = relay_with(on_failed, broker, RelaySettings::default()).await;
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
async fn failed_event_does_not_block_later_events_if_on_failed_is_continue() {
    let (status, published) = publish_after_a_failed_event(OnFailed::Continue).await;
    assert_eq!(status, OutboxStatus::Sent);
    assert_eq!(published, ["a-2", "a-3", "b-1"]);
}

#[tokio::test(start_paused = true)]
async fn failed_event_blocks_its_aggregate_if_on_failed_is_hold() {
    let (status, published) = publish_after_a_failed_event(OnFailed::Hold).await;
    assert_eq!(status, OutboxStatus::New);
    assert_eq!(published, ["b-1"]);
}

#[tokio::test(start_paused = true)]
async fn timeout_event_neither_blocks_other_events_nor_is_blocked_by_them() {
    let returned = Arc::new(Mutex::new("t-1"));
    let returned_id = Arc::clone(&returned);
    let (broker, windows) = mock_broker_by_id(move |id| {
        if *returned_id.lock().unwrap() == id { BrokerReply::Return } else { BrokerReply::Confirm }
    });
    let (world, process) = relay_with(OnFailed::Hold, broker, RelaySettings::default()).await;
    let timeout = sample::timeout(1, world.now());
    // An unpublished timeout does not block later events.
    process.commit(vec![world.event("t-1", 1, &timeout), world.event("a-2", 2, &sample::paid(1))]).await;
    pass(secs(1)).await;
    assert_eq!(world.status("a-2").await, OutboxStatus::Sent);
    assert_eq!(world.status("t-1").await, OutboxStatus::Retry);
    // An unpublished event does not block a timeout.
    *returned.lock().unwrap() = "a-3";
    process.commit(vec![world.event("a-3", 3, &sample::changed(1)), world.event("t-4", 4, &timeout)]).await;
    pass(secs(1)).await;
    assert_eq!(world.status("t-4").await, OutboxStatus::Sent);
    assert_eq!(world.status("a-3").await, OutboxStatus::Retry);
    assert_eq!(
        windows.ids()[0],
        ["t-1", "a-2"],
        "expected the timeout event and the later event in one window"
    );
}
