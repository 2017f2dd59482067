//! Several relays: who publishes which partition, and what happens when one falls silent.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;
use marketplace::queues::WEBHOOK_QUEUE;

use super::carrier::{Fate, Slow, carrier_by_id, willing};
use crate::support::{CommitFault, Process, World, eventually, millis, pass, sample, secs};

const LEASE: std::time::Duration = secs(5);
/// A relay looks at the leases each third of a lease.
const TICK: std::time::Duration = millis(1_667);

/// How many partitions each relay has by the leases.
async fn shares(world: &World) -> BTreeMap<String, usize> {
    let now = world.store.database_now();
    let leases = world.view().await.outbox_view().partition_leases().await.unwrap();
    let mut shares = BTreeMap::new();
    for lease in leases {
        let held = lease.lease_until.is_some_and(|until| until > now);
        let owner = lease.owner.filter(|_| held).map_or("nobody".to_owned(), |relay| relay.0);
        *shares.entry(owner).or_insert(0) += 1;
    }
    shares
}

fn shared(shares: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    shares.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

async fn started(world: &World, name: &str) -> Process {
    let process = world.process();
    process.start_relay(name, RelaySettings::default());
    pass(millis(1)).await;
    process
}

#[tokio::test(start_paused = true)]
async fn one_relay_owns_everything_and_two_share_evenly() {
    let world = World::new().await;
    let a = started(&world, "a").await;
    assert_eq!(shared(&shares(&world).await), [("a", 64)]);
    let b = started(&world, "b").await;
    eventually(TICK * 2 + millis(50), async || shared(&shares(&world).await) == [("a", 32), ("b", 32)]).await;
    let c = started(&world, "c").await;
    eventually(TICK * 3, async || shares(&world).await.get("c").is_some_and(|count| *count >= 20)).await;
    let shares = shares(&world).await;
    assert!(shares.values().all(|count| (20..=22).contains(count)), "{shares:?}");
    drop((a, b, c));
}

#[tokio::test(start_paused = true)]
async fn relays_that_share_publish_each_event_once_and_all_of_them() {
    let world = World::new().await;
    let (a, b) = (started(&world, "a").await, started(&world, "b").await);
    pass(secs(4)).await;
    let events =
        |from: i64| (from..from + 64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n)));
    a.commit(events(1).collect()).await;
    b.commit(events(65).collect()).await;
    eventually(secs(5), async || world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent)).await;
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 128);
}

#[tokio::test(start_paused = true)]
async fn the_partitions_of_a_killed_relay_are_taken_over_when_its_lease_ends() {
    let world = World::new().await;
    let (a, b) = (started(&world, "a").await, started(&world, "b").await);
    pass(secs(4)).await;
    a.kill().await;
    let whole = async || shared(&shares(&world).await) == [("b", 64)];
    eventually(LEASE + TICK + millis(50), whole).await;
    b.commit((1..=64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect()).await;
    pass(millis(100)).await;
    assert!(world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent));
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_stops_gives_its_partitions_back_at_once() {
    let world = World::new().await;
    let (a, b) = (started(&world, "a").await, started(&world, "b").await);
    pass(secs(4)).await;
    a.app.tx.tasks.stop().await;
    assert_eq!(shared(&shares(&world).await), [("b", 32), ("nobody", 32)]);
    let heartbeats = world.view().await.outbox_view().heartbeats().await.unwrap();
    assert_eq!(heartbeats.iter().map(|beat| beat.relay.0.as_str()).collect::<Vec<_>>(), ["b"]);
    eventually(TICK + millis(50), async || shared(&shares(&world).await) == [("b", 64)]).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_waits_for_the_broker_keeps_its_leases() {
    let world = World::new().await;
    let broker = Slow::first(&world.broker, secs(9));
    let a = world.process_on(broker);
    a.start_relay("a", RelaySettings::default());
    a.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(50)).await;
    let b = started(&world, "b").await;
    for _ in 0..8 {
        pass(secs(1)).await;
        assert_eq!(shared(&shares(&world).await), [("a", 64)], "nothing is given back during a window");
    }
    eventually(secs(1), async || world.status("e-1").await == OutboxStatus::Sent).await;
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 1);
    eventually(TICK * 2, async || shared(&shares(&world).await) == [("a", 32), ("b", 32)]).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_always_at_a_window_gives_back_between_two_of_them() {
    let world = World::new().await;
    // Whenever leases are to be renewed, a window is in flight.
    let window = TICK + millis(50);
    let a = world.process_on(Slow::each(&world.broker, window, window));
    a.start_relay("a", RelaySettings { batch: NonZeroU32::MIN, ..RelaySettings::default() });
    a.commit((1..=20).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect()).await;
    pass(millis(50)).await;
    let b = started(&world, "b").await;
    let even = async || shared(&shares(&world).await) == [("a", 32), ("b", 32)];
    eventually(window * 2 + TICK, even).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_stalls_beyond_its_lease_settles_nothing() {
    let world = World::new().await;
    // Its confirm comes after 9 s, and meanwhile it cannot renew its leases.
    let slow = world.process_on(Slow::first(&world.broker, secs(9)));
    slow.start_relay("a-slow", RelaySettings::default());
    slow.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    pass(millis(50)).await;
    slow.faults.set_away(true);
    let (willing, windows) = willing();
    let other = world.process_on(willing);
    other.start_relay("b-other", RelaySettings::default());
    eventually(LEASE + TICK * 2, async || world.status("e-1").await == OutboxStatus::Sent).await;
    let settled = world.row("e-1").await;
    assert_eq!(windows.ids(), [["e-1"]]);
    slow.faults.set_away(false);
    pass(secs(30)).await;
    assert_eq!(world.row("e-1").await, settled, "the row is as its new owner left it");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_lost_its_lease_between_two_events_does_not_publish_the_second() {
    let world = World::new().await;
    let slow = world.process_on(Slow::first(&world.broker, secs(9)));
    slow.start_relay("a-slow", RelaySettings::default());
    slow.commit(vec![world.event("e-1", 1, &sample::changed(7)), world.event("e-2", 2, &sample::changed(7))])
        .await;
    pass(millis(50)).await;
    slow.faults.set_away(true);
    let (willing, windows) = willing();
    let other = world.process_on(willing);
    other.start_relay("b-other", RelaySettings::default());
    pass(secs(20)).await;
    assert_eq!(windows.ids(), [["e-1"], ["e-2"]]);
    assert_eq!(world.depth(WEBHOOK_QUEUE).await.ready, 1, "the slow one published the first alone");
}

#[tokio::test(start_paused = true)]
async fn what_a_stalled_relay_found_out_is_not_written_also_where_it_owns_the_partition_again() {
    let world = World::new().await;
    let begun = tokio::time::Instant::now();
    // Where the slow one publishes, nothing takes the events: its answer, after 9 s, is "returned".
    world.unbind_changed();
    let slow = world.process_on(Slow::first(&world.broker, secs(9)));
    slow.start_relay("a-slow", RelaySettings::default());
    slow.commit((1..=64).map(|n| world.event(&format!("e-{n}"), 1, &sample::changed(n))).collect()).await;
    pass(millis(50)).await;
    slow.faults.set_away(true);
    let (nacking, _) = carrier_by_id(|_| Fate::Nack);
    let other = world.process_on(nacking);
    other.start_relay("b-other", RelaySettings::default());
    eventually(LEASE + TICK * 2, async || world.rows().await.iter().all(|row| row.retry_count == 1)).await;
    let settled = world.rows().await;
    slow.faults.set_away(false);
    pass(millis(8_900) - begun.elapsed()).await;
    let share = shares(&world).await.get("a-slow").copied();
    assert!(share.is_some_and(|count| count > 0), "it owns some again: {share:?}");
    pass(secs(1)).await;
    assert_eq!(world.rows().await, settled, "every row is as its owner of that epoch left it");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_lost_its_lease_publishes_nothing_more() {
    let world = World::new().await;
    let (broker, windows) = willing();
    let cut_off = world.process_on(broker);
    cut_off.start_relay("a", RelaySettings::default());
    pass(millis(50)).await;
    cut_off.faults.set_away(true);
    let other: Arc<dyn Broker> = Arc::new(world.broker.clone());
    let other = world.process_on(other);
    pass(LEASE).await;
    other.commit(vec![world.event("e-1", 1, &sample::changed(7))]).await;
    cut_off.wake.ring(handover_events::PartitionSet::ALL);
    pass(secs(20)).await;
    assert!(windows.all().is_empty());
    cut_off.faults.set_away(false);
    eventually(secs(5), async || world.status("e-1").await == OutboxStatus::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn partitions_taken_in_a_commit_whose_answer_was_lost_are_published_at_once() {
    // The first commit is that of the heartbeat, the second takes partitions.
    for faults in [[CommitFault::AnswerLost, CommitFault::None], [CommitFault::None, CommitFault::AnswerLost]]
    {
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
