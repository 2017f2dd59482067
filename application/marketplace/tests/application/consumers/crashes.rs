//! Processes killed during an attempt, and events that kill their process.

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;

use super::scripted::{Act, NAME, QUEUE, Scripted};
use crate::support::{World, eventually, millis, pass, secs};

#[tokio::test(start_paused = true)]
async fn event_that_always_kills_its_process_becomes_dead() {
    let world = World::new().await;
    let mut kills = 0;
    let first = world.process();
    let mut process = first.clone();
    let handler = loop {
        let tasks = process.app.tx.tasks().clone();
        let handler = Scripted::new(&world, move |_, _| Act::Kill(tasks.clone()));
        process.start_drainer(&[handler.subscriber()]);
        process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
        if kills == 0 {
            world.commit_and_deliver(&process, "e-1", 7, 1).await;
        }
        // A counted attempt is leased to its worker for 15 s.
        eventually(secs(20), async || {
            process.app.tx.tasks().is_killed()
                || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)
        })
        .await;
        if !process.app.tx.tasks().is_killed() {
            break handler;
        }
        process.app.tx.tasks().ended().await;
        kills += 1;
        assert!(kills <= 5, "the event ended more than 5 processes; it should have become DEAD");
        process = world.process();
    };
    // The attempt of the first delivery is counted only if it fails, so the kill leaves no count. Each of the following
    // four attempts is counted before it runs.
    assert_eq!(kills, 5);
    assert!(handler.calls().is_empty(), "the last process must not call the handler");
    pass(secs(1)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 4));
    let dead_letters = world.dead_letters().await;
    assert_eq!(dead_letters.len(), 1);
    assert!(dead_letters[0].reason.starts_with("消息消费失败"), "{}", dead_letters[0].reason);
    assert!(world.is_drained(QUEUE).await && world.effects(7).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn undelivered_predecessor_that_always_kills_its_process_becomes_dead() {
    let world = World::new().await;
    let mut kills = 0;
    let mut process = world.process();
    loop {
        let tasks = process.app.tx.tasks().clone();
        let handler = Scripted::new(&world, move |events, _| {
            if events.iter().any(|event| event == "e-1") { Act::Kill(tasks.clone()) } else { Act::Apply }
        });
        process.start_drainer(&[handler.subscriber()]);
        process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
        if kills == 0 {
            // The broker lost the message of the first event: the first event runs when the second one is delivered.
            world.commit_event(&process, "e-1", 7, 1).await;
            world.commit_and_deliver(&process, "e-2", 7, 2).await;
        }
        eventually(secs(40), async || {
            process.app.tx.tasks().is_killed()
                || world.log_status(NAME, "e-2").await == Some(ConsumeStatus::Success)
        })
        .await;
        if !process.app.tx.tasks().is_killed() {
            break;
        }
        process.app.tx.tasks().ended().await;
        kills += 1;
        assert!(kills <= 5, "the event ended more than 5 processes; it should have become DEAD");
        process = world.process();
    }
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert_eq!(world.dead_letters().await.len(), 1);
    assert_eq!(world.effects(7).await, ["e-2"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_event_that_always_kills_its_process_becomes_dead() {
    let world = World::new().await;
    let mut kills = 0;
    let mut process = world.process();
    loop {
        let tasks = process.app.tx.tasks().clone();
        // The first event fails in the group and as a single delivery. The second one has no delivery when it is applied.
        let handler = Scripted::new(&world, move |events, before| {
            let is = |id: &str| events.iter().any(|event| event == id);
            if is("e-1") && before < 2 {
                Act::Fail
            } else if is("e-2") {
                Act::Kill(tasks.clone())
            } else {
                Act::Apply
            }
        });
        process.start_drainer(&[handler.subscriber()]);
        process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
        if kills == 0 {
            world.commit_and_deliver(&process, "e-1", 7, 1).await;
            eventually(secs(1), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Failed))
                .await;
            world.commit_and_deliver(&process, "e-2", 7, 2).await;
        }
        eventually(secs(40), async || {
            process.app.tx.tasks().is_killed()
                || world.log_status(NAME, "e-2").await == Some(ConsumeStatus::Dead)
        })
        .await;
        if !process.app.tx.tasks().is_killed() {
            break;
        }
        process.app.tx.tasks().ended().await;
        kills += 1;
        assert!(kills <= 5, "the event ended more than 5 processes; it should have become DEAD");
        process = world.process();
    }
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
    assert_eq!(world.dead_letters().await.len(), 1);
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn event_that_killed_one_process_is_applied_once_by_the_next() {
    let world = World::new().await;
    let first = world.process();
    let tasks = first.app.tx.tasks().clone();
    let killing = Scripted::new(&world, move |_, _| Act::Kill(tasks.clone()));
    first.start_consumer(&killing.subscriber(), ConsumerSettings::default()).await;
    let other = world.process();
    for order in 1..=5 {
        world.commit_and_deliver(&other, &format!("e-{order}"), order, 1).await;
    }
    eventually(secs(1), async || first.app.tx.tasks().is_killed()).await;
    first.app.tx.tasks().ended().await;
    let second = world.process();
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    second.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(1)).await;
    for order in 1..=5 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
        assert_eq!(world.log(NAME, &format!("e-{order}")).await.unwrap().attempts, 1);
    }
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn attempt_of_a_crashed_process_is_not_repeated_until_its_lease_ends() {
    let world = World::new().await;
    let first = world.process();
    let tasks = first.app.tx.tasks().clone();
    let killing = Scripted::new(&world, move |_, before| {
        // The event fails twice, in the batch and as a single delivery. The next attempt is counted first and kills the
        // process.
        if before < 2 { Act::Fail } else { Act::Kill(tasks.clone()) }
    });
    first.start_consumer(&killing.subscriber(), ConsumerSettings::default()).await;
    world.commit_and_deliver(&first, "e-1", 7, 1).await;
    eventually(secs(1), async || first.app.tx.tasks().is_killed()).await;
    first.app.tx.tasks().ended().await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Processing, 2));
    let lease_ends = record.lease_until.expect("a counted attempt has a lease");
    assert_eq!((lease_ends - record.consume_time).num_seconds(), 15);
    let second = world.process();
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    second.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass((lease_ends - world.now()).to_std().unwrap() - millis(50)).await;
    assert!(handler.calls().is_empty());
    pass(millis(200)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 3));
    assert_eq!(world.effects(7).await, ["e-1"]);
}
