//! Processes that end in the middle, and events that end processes.

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;

use super::scripted::{Act, NAME, QUEUE, Scripted};
use crate::support::{World, eventually, millis, pass, secs};

#[tokio::test(start_paused = true)]
async fn an_event_that_kills_its_process_each_time_ends_dead() {
    let world = World::new().await;
    let mut kills = 0;
    let first = world.process();
    let mut process = first.clone();
    let handler = loop {
        let tasks = process.app.tx.tasks.clone();
        let handler = Scripted::new(&world, move |_, _| Act::Kill(tasks.clone()));
        process.start_drainer(&[handler.subscriber()]);
        process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
        if kills == 0 {
            world.arrived(&process, "e-1", 7, 1).await;
        }
        // A counted attempt is its worker's until the lease of 15 s ends.
        eventually(secs(20), async || {
            process.app.tx.tasks.is_killed()
                || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)
        })
        .await;
        if !process.app.tx.tasks.is_killed() {
            break handler;
        }
        process.app.tx.tasks.ended().await;
        kills += 1;
        assert!(kills <= 5, "it kills for ever");
        process = world.process();
    };
    // The first delivery is not counted before it runs; the four attempts after it are.
    assert_eq!(kills, 5);
    assert!(handler.calls().is_empty(), "the last process did not run it at all");
    pass(secs(1)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 4));
    let letters = world.letters().await;
    assert_eq!(letters.len(), 1);
    assert!(letters[0].reason.starts_with("消息消费失败"), "{}", letters[0].reason);
    assert!(world.is_drained(QUEUE).await && world.effects(7).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_kills_each_time_it_runs_before_a_later_one_ends_dead() {
    let world = World::new().await;
    let mut kills = 0;
    let mut process = world.process();
    loop {
        let tasks = process.app.tx.tasks.clone();
        let handler = Scripted::new(&world, move |events, _| {
            if events.iter().any(|event| event == "e-1") { Act::Kill(tasks.clone()) } else { Act::Apply }
        });
        process.start_drainer(&[handler.subscriber()]);
        process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
        if kills == 0 {
            // The broker lost the message of the first one: it runs when the second is delivered.
            world.happened(&process, "e-1", 7, 1).await;
            world.arrived(&process, "e-2", 7, 2).await;
        }
        eventually(secs(40), async || {
            process.app.tx.tasks.is_killed()
                || world.log_status(NAME, "e-2").await == Some(ConsumeStatus::Success)
        })
        .await;
        if !process.app.tx.tasks.is_killed() {
            break;
        }
        process.app.tx.tasks.ended().await;
        kills += 1;
        assert!(kills <= 5, "it kills for ever");
        process = world.process();
    }
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert_eq!(world.letters().await.len(), 1);
    assert_eq!(world.effects(7).await, ["e-2"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_killed_once_is_applied_once_by_the_next_process() {
    let world = World::new().await;
    let first = world.process();
    let tasks = first.app.tx.tasks.clone();
    let deadly = Scripted::new(&world, move |_, _| Act::Kill(tasks.clone()));
    first.start_consumer(&deadly.subscriber(), ConsumerSettings::default()).await;
    let other = world.process();
    for order in 1..=5 {
        world.arrived(&other, &format!("e-{order}"), order, 1).await;
    }
    eventually(secs(1), async || first.app.tx.tasks.is_killed()).await;
    first.app.tx.tasks.ended().await;
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
async fn what_a_crashed_process_was_at_is_busy_until_its_lease_ends() {
    let world = World::new().await;
    let first = world.process();
    let tasks = first.app.tx.tasks.clone();
    let deadly = Scripted::new(&world, move |_, before| {
        // Twice it fails, in the group and alone; the next attempt is counted first, and ends the process.
        if before < 2 { Act::Fail } else { Act::Kill(tasks.clone()) }
    });
    first.start_consumer(&deadly.subscriber(), ConsumerSettings::default()).await;
    world.arrived(&first, "e-1", 7, 1).await;
    eventually(secs(1), async || first.app.tx.tasks.is_killed()).await;
    first.app.tx.tasks.ended().await;
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
