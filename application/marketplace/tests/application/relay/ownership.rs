//! Several relays: ownership of partitions, and takeover when a relay stops or stalls.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;
use marketplace::consumers::WEBHOOK_QUEUE;

use super::test_brokers::{BrokerReply, SlowBroker, confirming_broker, mock_broker_by_id};
use crate::support::{CommitFault, Process, World, eventually, millis, pass, sample, secs};

const LEASE: std::time::Duration = secs(5);
/// Interval at which a relay renews its leases: a third of [`LEASE`].
const TICK: std::time::Duration = millis(1_667);

/// Number of partitions per relay, according to the leases.
async fn shares(world: &World) -> BTreeMap<String, usize> {
    let now = world.store.database_now();
    let leases = world.view().await.outbox_view().partition_leases().await.unwrap();
    let mut shares = BTreeMap::new();
    for lease in leases {
        let is_live = lease.lease_until.is_some_and(|until| until > now);
        let owner = lease.owner.filter(|_| is_live).map_or("none".to_owned(), |relay| relay.0);
        *shares.entry(owner).or_insert(0) += 1;
    }
    shares
}

fn as_pairs(shares: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    shares.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

async fn process_with_relay(world: &World, name: &str) -> Process {
    let process = world.process();
    process.start_relay(name, RelaySettings::default());
    pass(millis(1)).await;
    process
}

#[tokio::test(start_paused = true)]
async fn one_relay_owns_all_partitions_and_several_relays_share_them_evenly() {
    let world = World::new().await;
    let a = process_with_relay(&world, "a").await;
    assert_eq!(as_pairs(&shares(&world).await), [("a", 64)]);
    let b = process_with_relay(&world, "b").await;
    eventually(TICK * 2 + millis(50), async || as_pairs(&shares(&world).await) == [("a", 32), ("b", 32)])
        .await;
    let c = process_with_relay(&world, "c").await;
    eventually(TICK * 3, async || shares(&world).await.get("c").is_some_and(|count| *count >= 20)).await;
    let shares = shares(&world).await;
    assert!(shares.values().all(|count| (20..=22).contains(count)), "{shares:?}");
    drop((a, b, c));
}

#[tokio::test(start_paused = true)]
async fn relays_that_share_partitions_publish_each_event_once() {
    let world = World::new().await;
    let a = process_with_relay(&world, "a").await;
    let b = process_with_relay(&world, "b").await;
    pass(secs(4)).await;
    let events =
        |from: i64| (from..from + 64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n)));
    a.commit(events(1).collect()).await;
    b.commit(events(65).collect()).await;
    eventually(secs(5), async || world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent)).await;
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 128);
}

#[tokio::test(start_paused = true)]
async fn partitions_of_a_killed_relay_are_taken_over_when_its_lease_ends() {
    let world = World::new().await;
    let a = process_with_relay(&world, "a").await;
    let b = process_with_relay(&world, "b").await;
    pass(secs(4)).await;
    a.kill().await;
    let is_sole_owner = async || as_pairs(&shares(&world).await) == [("b", 64)];
    eventually(LEASE + TICK + millis(50), is_sole_owner).await;
    b.commit((1..=64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect()).await;
    pass(millis(100)).await;
    assert!(world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent));
}

#[tokio::test(start_paused = true)]
async fn stopping_relay_releases_its_partitions_at_once() {
    let world = World::new().await;
    let a = process_with_relay(&world, "a").await;
    let b = process_with_relay(&world, "b").await;
    pass(secs(4)).await;
    a.app.tx.tasks().stop().await;
    assert_eq!(as_pairs(&shares(&world).await), [("b", 32), ("none", 32)]);
    let heartbeats = world.view().await.outbox_view().heartbeats().await.unwrap();
    assert_eq!(heartbeats.iter().map(|beat| beat.relay.0.as_str()).collect::<Vec<_>>(), ["b"]);
    eventually(TICK + millis(50), async || as_pairs(&shares(&world).await) == [("b", 64)]).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn relay_waiting_for_the_broker_keeps_its_leases() {
    let world = World::new().await;
    let broker = SlowBroker::first(&world.broker, secs(9));
    let a = world.process_on(broker);
    a.start_relay("a", RelaySettings::default());
    a.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(50)).await;
    let b = process_with_relay(&world, "b").await;
    for _ in 0..8 {
        pass(secs(1)).await;
        assert_eq!(
            as_pairs(&shares(&world).await),
            [("a", 64)],
            "no partition may be released during a window"
        );
    }
    eventually(secs(1), async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 1);
    eventually(TICK * 2, async || as_pairs(&shares(&world).await) == [("a", 32), ("b", 32)]).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn busy_relay_releases_partitions_between_two_windows() {
    let world = World::new().await;
    // A window is in flight at every lease renewal.
    let window = TICK + millis(50);
    let a = world.process_on(SlowBroker::each(&world.broker, window, window));
    a.start_relay("a", RelaySettings { batch: NonZeroU32::MIN, ..RelaySettings::default() });
    a.commit((1..=20).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect()).await;
    pass(millis(50)).await;
    let b = process_with_relay(&world, "b").await;
    let is_even = async || as_pairs(&shares(&world).await) == [("a", 32), ("b", 32)];
    eventually(window * 2 + TICK, is_even).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn relay_stalled_beyond_its_lease_settles_nothing() {
    let world = World::new().await;
    // The broker confirms the first window of the slow relay after 9 s. Meanwhile the store is unavailable to this
    // relay, so it cannot renew its leases.
    let slow = world.process_on(SlowBroker::first(&world.broker, secs(9)));
    slow.start_relay("a-slow", RelaySettings::default());
    slow.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(50)).await;
    slow.faults.set_unavailable(true);
    let (confirming_broker, windows) = confirming_broker();
    let other = world.process_on(confirming_broker);
    other.start_relay("b-other", RelaySettings::default());
    eventually(LEASE + TICK * 2, async || world.status("e-1").await == OutboxStatus::Sent).await;
    let settled = world.row("e-1").await;
    assert_eq!(windows.ids(), [["e-1"]]);
    slow.faults.set_unavailable(false);
    pass(secs(30)).await;
    assert_eq!(
        world.row("e-1").await,
        settled,
        "the slow relay must not change a row that the new owner has settled"
    );
}

#[tokio::test(start_paused = true)]
async fn relay_that_loses_its_lease_between_two_events_does_not_publish_the_second() {
    let world = World::new().await;
    let slow = world.process_on(SlowBroker::first(&world.broker, secs(9)));
    slow.start_relay("a-slow", RelaySettings::default());
    slow.commit(vec![world.event("e-1", 1, &sample::changed(7)), world.event("e-2", 2, &sample::changed(7))])
        .await;
    pass(millis(50)).await;
    slow.faults.set_unavailable(true);
    let (confirming_broker, windows) = confirming_broker();
    let other = world.process_on(confirming_broker);
    other.start_relay("b-other", RelaySettings::default());
    pass(secs(20)).await;
    assert_eq!(windows.ids(), [["e-1"], ["e-2"]]);
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 1, "the slow relay must publish only the first event");
}

#[tokio::test(start_paused = true)]
async fn stalled_relay_does_not_settle_rows_of_an_old_epoch() {
    let world = World::new().await;
    let started = tokio::time::Instant::now();
    // No queue is bound for the events, so the broker returns their messages. The relay `a-slow` receives this outcome
    // only after 9 s.
    world.unbind_changed();
    let slow = world.process_on(SlowBroker::first(&world.broker, secs(9)));
    slow.start_relay("a-slow", RelaySettings::default());
    slow.commit((1..=64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect()).await;
    pass(millis(50)).await;
    slow.faults.set_unavailable(true);
    let (nacking, _) = mock_broker_by_id(|_| BrokerReply::Nack);
    let other = world.process_on(nacking);
    other.start_relay("b-other", RelaySettings::default());
    eventually(LEASE + TICK * 2, async || world.rows().await.iter().all(|row| row.retry_count == 1)).await;
    let settled = world.rows().await;
    slow.faults.set_unavailable(false);
    pass(millis(8_900) - started.elapsed()).await;
    let share = shares(&world).await.get("a-slow").copied();
    assert!(
        share.is_some_and(|count| count > 0),
        "the slow relay must own partitions again, but its number of partitions is {share:?}"
    );
    pass(secs(1)).await;
    assert_eq!(world.rows().await, settled, "the late outcomes of the slow relay must not change a row");
}

#[tokio::test(start_paused = true)]
async fn relay_without_a_lease_publishes_nothing() {
    let world = World::new().await;
    let (broker, windows) = confirming_broker();
    let cut_off = world.process_on(broker);
    cut_off.start_relay("a", RelaySettings::default());
    pass(millis(50)).await;
    cut_off.faults.set_unavailable(true);
    let other: Arc<dyn Broker> = Arc::new(world.broker.clone());
    let other = world.process_on(other);
    pass(LEASE).await;
    other.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    cut_off.wake.notify(handover_events::PartitionSet::ALL);
    pass(secs(20)).await;
    assert!(windows.all().is_empty());
    cut_off.faults.set_unavailable(false);
    eventually(secs(5), async || world.status("e-1").await == OutboxStatus::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn partitions_acquired_in_a_commit_with_a_lost_reply_are_published_at_once() {
    // The first commit writes the heartbeat, the second acquires partitions.
    for faults in [[CommitFault::ReplyLost, CommitFault::None], [CommitFault::None, CommitFault::ReplyLost]] {
        let world = World::new().await;
        let process = world.process();
        process
            .commit((1..=64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect())
            .await;
        process.faults.next_commits(faults);
        process.start_relay("a", RelaySettings::default());
        pass(secs(1)).await;
        assert!(world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent));
    }
}
