//! The breaker: failures of many aggregates in a row are attributed to the system and not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;

use super::scripted::{Act, NAME, QUEUE, Scripted, consuming};
use crate::support::{Process, World, eventually, millis, pass, secs};

fn names(count: i64) -> Vec<String> {
    (1..=count).map(|n| format!("e-{n}")).collect()
}

/// Commits and delivers one event of each of these orders.
async fn deliver(world: &World, process: &Process, orders: std::ops::RangeInclusive<i64>) {
    for order in orders {
        world.commit_event(process, &format!("e-{order}"), order, 1).await;
        world.deliver(QUEUE, &format!("e-{order}")).await;
    }
}

/// Status and attempts of each event; `None` if it has no record.
async fn records(world: &World, events: &[String]) -> Vec<Option<(ConsumeStatus, u32)>> {
    let mut records = Vec::new();
    for event in events {
        records.push(world.log(NAME, event).await.map(|record| (record.status, record.attempts)));
    }
    records
}

#[tokio::test(start_paused = true)]
async fn failures_of_ten_aggregates_are_not_counted_and_events_are_applied_when_one_succeeds() {
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let act = move |_: &[String], _| if state.load(Ordering::Relaxed) { Act::Fail } else { Act::Apply };
    let (world, process, handler) = consuming(act).await;
    deliver(&world, &process, 1..=12).await;
    pass(secs(1)).await;
    let counted = async || {
        let records = records(&world, &names(12)).await;
        records.into_iter().flatten().map(|(_, attempts)| attempts).sum::<u32>()
    };
    assert_eq!(counted().await, 0, "{:?}", records(&world, &names(12)).await);
    let before = handler.calls().len();
    pass(secs(300)).await;
    let tries = handler.calls().split_off(before);
    // The pauses are 1, 2, 4, 8, 16 and then 30 s.
    assert!((10..=15).contains(&tries.len()), "{tries:?}");
    assert!(
        tries.windows(2).all(|pair| pair[1].events != pair[0].events),
        "one event was tried twice: {tries:?}"
    );
    assert_eq!(counted().await, 0);
    broken.store(false, Ordering::Relaxed);
    eventually(secs(60), async || world.is_drained(QUEUE).await).await;
    eventually(secs(60), async || {
        records(&world, &names(12)).await.iter().all(|record| *record == Some((ConsumeStatus::Success, 1)))
    })
    .await;
    for order in 1..=12 {
        assert_eq!(world.effects(order).await, [format!("e-{order}")]);
    }
    assert!(world.dead_letters().await.is_empty());
    deliver(&world, &process, 13..=13).await;
    eventually(secs(1), async || !world.effects(13).await.is_empty()).await;
}

/// The failures arrive one after the other, so the earlier ones were recorded before the breaker opens.
#[tokio::test(start_paused = true)]
async fn recorded_attempts_are_taken_back() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    for order in 1..=9 {
        deliver(&world, &process, order..=order).await;
        pass(millis(10)).await;
    }
    assert_eq!(records(&world, &names(9)).await, vec![Some((ConsumeStatus::Failed, 1)); 9]);
    deliver(&world, &process, 10..=10).await;
    pass(millis(10)).await;
    assert_eq!(records(&world, &names(9)).await, vec![Some((ConsumeStatus::Waiting, 0)); 9]);
    assert_eq!(records(&world, &["e-10".to_owned()]).await, [None]);
}

#[tokio::test(start_paused = true)]
async fn event_that_fails_in_twenty_tries_counts_again() {
    let (world, process, handler) = consuming(|_, _| Act::Fail).await;
    deliver(&world, &process, 1..=10).await;
    // Ten events with 24 tries each, 30 s apart.
    pass(secs(3 * 3600)).await;
    assert_eq!(records(&world, &names(10)).await, vec![Some((ConsumeStatus::Dead, 4)); 10]);
    for event in names(10) {
        // 20 tries and 4 attempts; before them the failures that opened the breaker, in a group and alone.
        let calls = handler.times(&event).len();
        assert!((24..=27).contains(&calls), "{event}: {calls} calls");
    }
    assert_eq!(world.dead_letters().await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn unrecoverable_failures_do_not_open_the_breaker() {
    let (world, process, _) = consuming(|_, _| Act::FailPermanently).await;
    deliver(&world, &process, 1..=12).await;
    eventually(secs(10), async || world.dead_letters().await.len() == 12).await;
}

/// Neither do nine aggregates, failures of different kinds, or failures between successes.
#[tokio::test(start_paused = true)]
async fn other_rows_of_failures_do_not_open_the_breaker() {
    let (world, process, _) = consuming(|_, _| Act::Fail).await;
    deliver(&world, &process, 1..=9).await;
    eventually(secs(30), async || world.dead_letters().await.len() == 9).await;

    let kinds = ["stock service refused order 17", "no route to host 10.0.0.8", "quota exceeded"];
    let act = move |ids: &[String], _| {
        let order: usize = ids[0].trim_start_matches("e-").parse().unwrap();
        Act::FailAs(kinds[order % kinds.len()].to_owned())
    };
    let (world, process, _) = consuming(act).await;
    for order in 1..=12 {
        deliver(&world, &process, order..=order).await;
        pass(millis(10)).await;
    }
    let failed = records(&world, &names(12)).await;
    assert!(failed.iter().all(|record| *record == Some((ConsumeStatus::Failed, 1))), "{failed:?}");

    let act = |ids: &[String], _| if ids == ["e-6"] { Act::Apply } else { Act::Fail };
    let (world, process, _) = consuming(act).await;
    for order in 1..=12 {
        deliver(&world, &process, order..=order).await;
        pass(millis(10)).await;
    }
    let attempts: Vec<u32> =
        records(&world, &names(12)).await.into_iter().flatten().map(|(_, attempts)| attempts).collect();
    assert_eq!(attempts, [1; 12]);
}

/// The texts differ only in values, so it is one kind.
#[tokio::test(start_paused = true)]
async fn errors_that_differ_in_values_are_of_one_kind() {
    let act = |ids: &[String], _| Act::FailAs(format!("stock service refused {} at 10:00", ids[0]));
    let (world, process, _) = consuming(act).await;
    deliver(&world, &process, 1..=10).await;
    pass(secs(2)).await;
    let counted =
        records(&world, &names(10)).await.into_iter().flatten().filter(|(_, attempts)| *attempts > 0);
    assert_eq!(counted.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn breaker_of_0_never_opens() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Fail);
    let process = world.process();
    process.start_drainer(&[handler.subscriber()]);
    let settings = ConsumerSettings { breaker: 0, ..ConsumerSettings::default() };
    process.start_consumer(&handler.subscriber(), settings).await;
    deliver(&world, &process, 1..=12).await;
    eventually(secs(30), async || world.dead_letters().await.len() == 12).await;
}
