//! Windows: their size, what disturbs them, and what wakes the relay.

use std::collections::BTreeSet;

use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;
use marketplace::queues::WEBHOOK_QUEUE;

use super::carrier::{Fate, carrier, willing};
use super::relay_on;
use crate::support::{World, eventually, millis, pass, sample, secs};

#[tokio::test(start_paused = true)]
async fn of_a_window_of_200_exactly_the_20_that_no_queue_takes_are_left() {
    let world = World::new().await;
    let process = world.process();
    world.unbind_changed();
    let lost = |number: i64| number % 10 == 3;
    let body = |number| if lost(number) { sample::changed(number) } else { sample::paid(number) };
    process.commit((1..=200).map(|n| world.event(&format!("e-{n}"), 1, &body(n))).collect()).await;
    process.start_relay("relay-1", RelaySettings::default());
    pass(secs(1)).await;
    for (number, row) in (1..).zip(world.rows().await) {
        let expected = if lost(number) { OutboxStatus::Retry } else { OutboxStatus::Sent };
        assert_eq!((row.status, row.retry_count), (expected, u32::from(lost(number))), "e-{number}");
    }
    assert!(world.broker.rebind(WEBHOOK_QUEUE, "order.status.changed"));
    pass(secs(5)).await;
    assert!(world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent));
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 200, "each was published once");
}

#[tokio::test(start_paused = true)]
async fn no_window_is_larger_than_the_batch() {
    let (broker, windows) = willing();
    let settings = RelaySettings { batch: 7.try_into().unwrap(), ..RelaySettings::default() };
    let (world, process) = relay_on(broker, settings).await;
    process.commit((1..=20).map(|n| world.event(&format!("e-{n}"), 1, &sample::paid(n))).collect()).await;
    pass(millis(100)).await;
    assert_eq!(windows.ids().iter().map(Vec::len).collect::<Vec<_>>(), [7, 7, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_window_is_published_one_by_one_and_only_the_culprit_is_charged() {
    let (broker, windows) = carrier(|window| {
        if window.iter().any(|outgoing| outgoing.event_id().as_str() == "culprit") {
            return Err(BrokerError::Refused { what: "a header too long".into() });
        }
        Ok(window.iter().map(|_| Fate::Confirm).collect())
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let events = [("a", 1), ("culprit", 2), ("b", 3)];
    process.commit(events.map(|(id, order)| world.event(id, 1, &sample::paid(order))).to_vec()).await;
    pass(millis(100)).await;
    for id in ["a", "b"] {
        let row = world.row(id).await;
        assert_eq!((row.status, row.retry_count), (OutboxStatus::Sent, 0), "{id}");
    }
    let culprit = world.row("culprit").await;
    assert_eq!((culprit.status, culprit.retry_count), (OutboxStatus::Retry, 1));
    assert_eq!(culprit.last_error.as_deref(), Some("消息发送失败: a header too long"));
    assert_eq!(windows.ids(), [vec!["a", "culprit", "b"], vec!["a"], vec!["culprit"], vec!["b"]]);
    pass(secs(200)).await;
    assert_eq!(world.status("culprit").await, OutboxStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_goes_away_between_single_publishes_charges_nobody_else() {
    let (broker, _) = carrier(|window| match window {
        [outgoing] if outgoing.event_id().as_str() == "a" => Ok(vec![Fate::Confirm]),
        [_] => Err(BrokerError::Unreachable("gone".into())),
        _ => Err(BrokerError::Refused { what: "too much".into() }),
    });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let events = [("a", 1), ("b", 2), ("c", 3)];
    process.commit(events.map(|(id, order)| world.event(id, 1, &sample::paid(order))).to_vec()).await;
    pass(secs(60)).await;
    assert_eq!(world.status("a").await, OutboxStatus::Sent);
    assert!(world.rows().await.iter().all(|row| row.retry_count == 0));
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_published_without_waiting_for_the_scan() {
    let (broker, windows) = willing();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    pass(secs(12)).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    let took = eventually(secs(5), async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert!(took <= millis(10), "{took:?}");
    assert_eq!(windows.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_another_process_commits_is_found_within_the_scan_interval() {
    let (broker, _) = willing();
    let (world, _publisher) = relay_on(broker, RelaySettings::default()).await;
    let other = world.process();
    for number in 1..=5 {
        pass(millis(1_700)).await;
        let id = format!("e-{number}");
        other.commit(vec![world.event(&id, 1, &sample::paid(number))]).await;
        eventually(secs(5), async || world.status(&id).await == OutboxStatus::Sent).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_relay_asks_the_store_seldom() {
    let (broker, _) = willing();
    let (_world, process) = relay_on(broker, RelaySettings::default()).await;
    let before = process.faults.begun();
    pass(secs(60)).await;
    // A tick per third of a lease of 5 s.
    let ticks = process.faults.begun() - before;
    assert!((30..=40).contains(&ticks), "{ticks}");
}

#[tokio::test(start_paused = true)]
async fn many_commits_at_once_are_all_published_exactly_once() {
    let (broker, windows) = willing();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let commits =
        (1..=300).map(|n| process.commit(vec![world.event(&format!("e-{n}"), 1, &sample::paid(n))]));
    futures_util::future::join_all(commits).await;
    eventually(secs(5), async || world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent)).await;
    let ids = windows.ids().concat();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (300, 300));
}
