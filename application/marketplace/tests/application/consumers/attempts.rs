//! Attempts of one event: applied once, retried, and dead-lettered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::scripted::{Act, NAME, QUEUE, consuming};
use super::sweeps::write_unfinished_record;
use crate::support::{CommitFault, eventually, millis, pass, secs};

#[tokio::test(start_paused = true)]
async fn event_delivered_twice_takes_effect_once() {
    let (world, process, handler) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.deliver(QUEUE, "e-1").await;
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts, record.error_message), (ConsumeStatus::Success, 1, None));
    assert_eq!(handler.calls().len(), 1);
    assert!(world.is_drained(QUEUE).await && world.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn event_is_dead_and_parked_after_three_retries() {
    let (world, process, handler) = consuming(|_, _| Act::Fail).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    for (attempts, delay) in [(1, millis(200)), (2, millis(400)), (3, millis(800))] {
        eventually(millis(100), async || {
            world
                .log(NAME, "e-1")
                .await
                .is_some_and(|it| it.attempts == attempts && it.status == ConsumeStatus::Failed)
        })
        .await;
        let record = world.log(NAME, "e-1").await.unwrap();
        let due = record.next_retry_time.expect("a failure sets the time of the next attempt");
        assert_eq!((due - record.consume_time).to_std().unwrap(), delay);
        assert_eq!(record.error_message.as_deref(), Some("消息消费失败: service unavailable"));
        pass(delay).await;
    }
    eventually(millis(100), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 4);
    pass(millis(100)).await;
    let dead_letters = world.dead_letters().await;
    let [dead_letter] = dead_letters.as_slice() else { panic!("{dead_letters:?}") };
    assert_eq!((dead_letter.queue.as_str(), dead_letter.key.as_str()), (QUEUE, "e-1"));
    assert_eq!(
        (dead_letter.trace_id.as_deref(), dead_letter.event_type.as_deref()),
        (Some("trace-e-1"), Some("ORDER_STATUS_CHANGED"))
    );
    assert_eq!(dead_letter.reason, "消息消费失败: service unavailable");
    assert!(world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await);
    pass(secs(600)).await;
    // The first delivery is tried in a batch, then as a single delivery. Only single attempts are counted.
    let times = handler.times("e-1");
    assert_eq!(times.len(), 5, "{times:?}");
    let pauses: Vec<TimeDelta> = times[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, delay) in pauses.iter().zip([200, 400, 800]) {
        assert!((delay..delay + 20).contains(&pause.num_milliseconds()), "{pauses:?}");
    }
    assert_eq!(world.effects(7).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn attempt_is_repeated_at_the_moment_at_which_its_lease_expires() {
    let (world, process, handler) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let expires = world.now();
    write_unfinished_record(&world, "e-1", ConsumeStatus::Processing, Some(TimeDelta::zero())).await;
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    assert_eq!(handler.times("e-1"), [expires]);
}

#[tokio::test(start_paused = true)]
async fn event_that_succeeds_after_failures_takes_effect_once() {
    let (world, process, _) = consuming(|_, before| if before < 4 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(secs(3)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 4));
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.is_drained(QUEUE).await && world.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unrecoverable_event_is_dead_at_once() {
    let (world, process, handler) = consuming(|_, _| Act::FailPermanently).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(100)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 1));
    assert_eq!(handler.calls().len(), 2, "expected one call in the batch and one for the single delivery");
    assert_eq!(world.dead_letters().await[0].reason, "消息消费失败: request rejected");
    assert!(world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn other_events_are_applied_during_the_backoff_of_a_failed_event() {
    let (world, process, _) =
        consuming(|ids, _| if ids.contains(&"bad".into()) { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "bad", 1, 1).await;
    pass(millis(10)).await;
    for order in 2..30 {
        world.commit_and_deliver(&process, &format!("good-{order}"), order, 1).await;
    }
    pass(millis(50)).await;
    for order in 2..30 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
    }
    assert_eq!(world.log_status(NAME, "bad").await, Some(ConsumeStatus::Failed));
}

#[tokio::test(start_paused = true)]
async fn failing_event_in_a_batch_gets_one_failed_attempt_and_the_others_are_applied() {
    let world = crate::support::World::new().await;
    let handler = super::scripted::Scripted::new(&world, |ids, _| {
        if ids.contains(&"e-5".into()) { Act::Fail } else { Act::Apply }
    });
    let process = world.process();
    // The first process only subscribes the consumer. The next process receives all events as one batch.
    process.start_consumer(&handler.subscriber(), Default::default()).await;
    process.kill().await;
    let process = world.process();
    for order in 1..=10 {
        world.commit_and_deliver(&process, &format!("e-{order}"), order, 1).await;
    }
    process.start_consumer(&handler.subscriber(), Default::default()).await;
    pass(millis(50)).await;
    assert_eq!(handler.calls()[0].events.len(), 10, "expected all 10 events in one batch");
    for order in (1..=10).filter(|order| *order != 5) {
        let record = world.log(NAME, &format!("e-{order}")).await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 1));
        assert_eq!(world.effects(order).await.len(), 1);
    }
    let bad = world.log(NAME, "e-5").await.unwrap();
    assert_eq!((bad.status, bad.attempts), (ConsumeStatus::Failed, 1));
}

#[tokio::test(start_paused = true)]
async fn handler_panic_is_a_failed_attempt() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Panic } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Failed, 1));
    assert!(record.error_message.unwrap().starts_with("消息消费失败"));
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn event_whose_handler_always_panics_becomes_dead() {
    let (world, process, _) = consuming(|_, _| Act::Panic).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(secs(5)).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert_eq!(world.dead_letters().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_handler_times_out_and_is_counted_as_a_failed_attempt() {
    let (world, process, _) = consuming(|ids, _| if ids[0] == "bad" { Act::Hang } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "bad", 1, 1).await;
    pass(secs(12)).await;
    assert_eq!(
        world.log(NAME, "bad").await,
        None,
        "recorded before both timeouts had passed: 2.5 s in the batch, then 10 s for the single delivery"
    );
    pass(millis(600)).await;
    let record = world.log(NAME, "bad").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Failed, 1));
    assert_eq!(record.error_message.as_deref(), Some("消息消费失败: handler timed out after 10s"));
    pass(secs(40)).await;
    assert_eq!(world.log_status(NAME, "bad").await, Some(ConsumeStatus::Dead));
    assert_eq!(world.log(NAME, "bad").await.unwrap().attempts, 4);
    world.commit_and_deliver(&process, "good", 2, 1).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(2).await, ["good"]);
}

#[tokio::test(start_paused = true)]
async fn repeated_conflicts_in_the_handler_count_as_failed_attempts_until_the_event_is_dead() {
    let (world, process, handler) = consuming(|_, _| Act::Conflict).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(secs(10)).await;
    assert_eq!(
        world.log_status(NAME, "e-1").await,
        Some(ConsumeStatus::Dead),
        "status after {} calls of the handler",
        handler.calls().len()
    );
}

#[tokio::test(start_paused = true)]
async fn store_outage_spends_no_attempt() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    process.faults.set_unavailable(true);
    world.deliver(QUEUE, "e-1").await;
    pass(secs(120)).await;
    assert_eq!(world.log(NAME, "e-1").await, None);
    process.faults.set_unavailable(false);
    eventually(millis(2_100), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Success))
        .await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 1);
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn store_outage_during_a_counted_attempt_spends_no_further_attempt() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 1);
    // The second attempt is counted. Then its commit fails five times, because the store becomes unavailable.
    for _ in 0..5 {
        process.faults.next_commits([CommitFault::None, CommitFault::Unavailable]);
        pass(secs(3)).await;
        process.faults.set_unavailable(false);
    }
    pass(secs(60)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 2));
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn attempt_is_counted_once_and_runs_immediately_if_commit_reply_of_its_count_is_lost() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    process.faults.next_commits([CommitFault::ReplyLost]);
    pass(secs(1)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 2));
}

#[tokio::test(start_paused = true)]
async fn event_takes_effect_once_after_a_commit_fault() {
    for fault in [CommitFault::ReplyLost, CommitFault::Lost, CommitFault::Transient] {
        let (world, process, _) = consuming(|_, _| Act::Apply).await;
        world.commit_event(&process, "e-1", 7, 1).await;
        process.faults.next_commits([fault]);
        world.deliver(QUEUE, "e-1").await;
        pass(secs(1)).await;
        assert_eq!(world.effects(7).await, ["e-1"], "{fault:?}");
        assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
        assert!(world.is_drained(QUEUE).await);
        process.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn broker_outage_neither_loses_nor_duplicates_events() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    world.broker.set_reachable(false);
    pass(secs(60)).await;
    world.broker.set_reachable(true);
    eventually(secs(3), async || world.is_drained(QUEUE).await).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

/// The event was delivered before, so each attempt is counted before it runs, and its lease ends while the fault lasts.
#[tokio::test(start_paused = true)]
async fn fault_of_the_system_counts_no_attempt_at_a_redelivered_event() {
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let act = move |_: &[String], _| if state.load(Ordering::Relaxed) { Act::Fault } else { Act::Apply };
    let (world, process, handler) = consuming(act).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(secs(2)).await;
    process.kill().await;
    let process = world.process();
    process.start_drainer(&[handler.subscriber()]);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    pass(secs(120)).await;
    assert!(handler.times("e-1").len() > 20, "{:?}", handler.times("e-1"));
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Waiting, 0));
    broken.store(false, Ordering::Relaxed);
    eventually(secs(10), async || world.effects(7).await == ["e-1"]).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 1);
    assert!(world.dead_letters().await.is_empty());
}
