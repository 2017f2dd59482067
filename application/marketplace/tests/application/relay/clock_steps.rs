//! Relays when the clock of the database or of a process is set back or forward.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use handover_events::OutboxStatus;
use handover_outbox::RelaySettings;
use handover_outbox::ports::{FailedPublish, Redrive, Store};

use crate::support::{Process, World, event_id, eventually, millis, pass, sample, secs};

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
async fn partitions_of_a_killed_relay_are_taken_over_soon_after_its_lease_despite_a_clock_step() {
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
async fn relay_started_after_the_clock_was_set_back_takes_over_within_two_lease_lengths() {
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
        // Each of the five clock steps happens at another point between two lease renewals.
        for _ in 0..5 {
            world.store.move_database_clock(step);
            pass(millis(2_100)).await;
        }
        pass(LEASE * 3).await;
        assert_eq!(
            owners(&world).await,
            before,
            "partitions changed their owner or epoch after steps of {step}"
        );
        drop((a, b));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_written_while_the_clock_was_ahead_waits_no_longer_than_the_retry_policy_allows() {
    let world = World::new().await;
    let process = world.process();
    let event = |id: &str, seq, order| world.event(id, seq, &sample::changed(order));
    process.commit(vec![event("late", 1, 7), event("behind", 2, 7)]).await;
    process.commit(vec![event("retry", 1, 8), event("redriven", 1, 9)]).await;
    // The clock was two hours ahead when the publish of the first event failed.
    let longest = TimeDelta::from_std(RelaySettings::default().retry.longest_delay()).unwrap();
    let failed = |id: &str, status, due| FailedPublish {
        event_id: event_id(id),
        status,
        retry_count: 1,
        next_retry_time: due,
        error: "NO_ROUTE".into(),
    };
    let redriven = Redrive { event_id: event_id("redriven"), due: world.now() + TimeDelta::hours(2) };
    let mut unit = world.store.begin().await.unwrap();
    let publishes = [
        failed("late", OutboxStatus::Retry, Some(world.now() + TimeDelta::hours(2))),
        failed("retry", OutboxStatus::Retry, Some(world.now() + longest)),
        failed("redriven", OutboxStatus::Failed, None),
    ];
    unit.outbox().mark_failed(&publishes, world.now()).await.unwrap();
    unit.outbox().redrive(&[redriven], world.now()).await.unwrap();
    unit.commit().await.unwrap();
    process.start_relay("r", RelaySettings::default());
    pass(secs(15)).await;
    for id in ["late", "behind"] {
        assert_eq!(world.status(id).await, OutboxStatus::Sent, "{id}");
    }
    assert_eq!(
        world.status("retry").await,
        OutboxStatus::Retry,
        "a delay within the retry policy must be kept"
    );
    pass(secs(3_600)).await;
    assert_eq!(world.status("retry").await, OutboxStatus::Sent);
    assert_eq!(
        world.status("redriven").await,
        OutboxStatus::Retry,
        "a due time that an operator chose must be kept"
    );
}
