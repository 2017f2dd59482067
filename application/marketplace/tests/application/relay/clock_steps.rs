//! Relays while the clock of the database is set back or forward.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use handover_outbox::RelaySettings;

use crate::support::{Process, World, eventually, millis, pass, secs};

const LEASE: std::time::Duration = secs(5);
const TICK: std::time::Duration = millis(1_667);
const STEPS: [TimeDelta; 2] = [TimeDelta::minutes(-5), TimeDelta::minutes(5)];

async fn process_with_relay(world: &World, name: &str) -> Process {
    let process = world.process();
    process.start_relay(name, RelaySettings::default());
    pass(millis(1)).await;
    process
}

/// Owner and epoch of each partition.
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
async fn partitions_of_a_killed_relay_are_taken_over_within_a_lease_when_the_clock_steps() {
    for step in STEPS {
        let world = World::new().await;
        let a = process_with_relay(&world, "a").await;
        let b = process_with_relay(&world, "b").await;
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
async fn relay_started_after_the_clock_was_set_back_takes_over_within_a_lease() {
    let world = World::new().await;
    let a = process_with_relay(&world, "a").await;
    pass(secs(2)).await;
    a.kill().await;
    world.store.move_database_clock(TimeDelta::minutes(-5));
    let b = process_with_relay(&world, "b").await;
    eventually(LEASE * 2, async || shares(&world).await == all_of("b")).await;
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn clock_step_does_not_move_partitions_of_live_relays() {
    for step in STEPS {
        let world = World::new().await;
        let a = process_with_relay(&world, "a").await;
        let b = process_with_relay(&world, "b").await;
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
