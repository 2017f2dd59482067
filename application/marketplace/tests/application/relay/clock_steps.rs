//! The database's clock is set, back or forward, while relays hold leases.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use handover_outbox::RelaySettings;

use crate::support::{Process, World, eventually, millis, pass, secs};

const LEASE: std::time::Duration = secs(5);
const TICK: std::time::Duration = millis(1_667);
const STEPS: [TimeDelta; 2] = [TimeDelta::minutes(-5), TimeDelta::minutes(5)];

async fn started(world: &World, name: &str) -> Process {
    let process = world.process();
    process.start_relay(name, RelaySettings::default());
    pass(millis(1)).await;
    process
}

/// The owner of each partition with its epoch.
async fn owners(world: &World) -> Vec<(String, i64)> {
    let leases = world.view().await.outbox_view().partition_leases().await.unwrap();
    leases.into_iter().map(|lease| (lease.owner.unwrap().0, lease.epoch)).collect()
}

async fn shares(world: &World) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for (owner, _) in owners(world).await {
        *shares.entry(owner).or_insert(0) += 1;
    }
    shares
}

fn all_of(name: &str) -> BTreeMap<String, usize> {
    BTreeMap::from([(name.to_owned(), 64)])
}

#[tokio::test(start_paused = true)]
async fn partitions_of_a_killed_relay_are_taken_over_within_a_lease_when_the_clock_is_set() {
    for step in STEPS {
        let world = World::new().await;
        let (a, b) = (started(&world, "a").await, started(&world, "b").await);
        pass(secs(10)).await;
        a.kill().await;
        world.store.move_database_clock(step);
        eventually(LEASE + TICK * 2, async || shares(&world).await == all_of("b")).await;
        let heartbeats = world.view().await.outbox_view().heartbeats().await.unwrap();
        assert_eq!(heartbeats.iter().map(|beat| beat.relay.0.as_str()).collect::<Vec<_>>(), ["b"]);
        drop(b);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_starts_after_the_clock_was_set_back_takes_over_within_a_lease() {
    let world = World::new().await;
    let a = started(&world, "a").await;
    pass(secs(2)).await;
    a.kill().await;
    world.store.move_database_clock(TimeDelta::minutes(-5));
    let b = started(&world, "b").await;
    eventually(LEASE * 2, async || shares(&world).await == all_of("b")).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn partitions_of_living_relays_change_hands_by_no_step_of_the_clock() {
    for step in STEPS {
        let world = World::new().await;
        let (a, b) = (started(&world, "a").await, started(&world, "b").await);
        pass(secs(10)).await;
        let before = owners(&world).await;
        // At each point between two renewals.
        for _ in 0..5 {
            world.store.move_database_clock(step);
            pass(millis(2_100)).await;
        }
        pass(LEASE * 3).await;
        assert_eq!(owners(&world).await, before, "after steps of {step}");
        drop((a, b));
    }
}
