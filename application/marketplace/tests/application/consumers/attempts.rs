//! One event: applied once, tried again, given up.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::scripted::{Act, NAME, QUEUE, consuming};
use crate::support::{CommitFault, eventually, millis, pass, secs};

#[tokio::test(start_paused = true)]
async fn an_event_that_is_delivered_twice_takes_effect_once() {
    let (world, process, handler) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    world.deliver(QUEUE, "e-1").await;
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts, record.error_message), (ConsumeStatus::Success, 1, None));
    assert_eq!(handler.calls().len(), 1);
    assert!(world.is_drained(QUEUE).await && world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_the_first_delivery_and_three_retries_an_event_is_dead_and_parked() {
    let (world, process, handler) = consuming(|_, _| Act::Fail).await;
    world.arrived(&process, "e-1", 7, 1).await;
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
        assert_eq!(record.error_message.as_deref(), Some("消息消费失败: out of paper"));
        pass(delay).await;
    }
    eventually(millis(100), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 4);
    pass(millis(100)).await;
    let letters = world.letters().await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!((letter.queue.as_str(), letter.key.as_str()), (QUEUE, "e-1"));
    assert_eq!(
        (letter.trace_id.as_deref(), letter.event_type.as_deref()),
        (Some("trace-e-1"), Some("ORDER_STATUS_CHANGED"))
    );
    assert_eq!(letter.reason, "消息消费失败: out of paper");
    assert!(world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await);
    pass(secs(600)).await;
    // The first delivery is tried in a group, then alone, where attempts are counted.
    let times = handler.times("e-1");
    assert_eq!(times.len(), 5, "{times:?}");
    let pauses: Vec<TimeDelta> = times[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, delay) in pauses.iter().zip([200, 400, 800]) {
        assert!((delay..delay + 20).contains(&pause.num_milliseconds()), "{pauses:?}");
    }
    assert_eq!(world.effects(7).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_succeeds_after_failures_takes_effect_once() {
    let (world, process, _) = consuming(|_, before| if before < 4 { Act::Fail } else { Act::Apply }).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(secs(3)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 4));
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.is_drained(QUEUE).await && world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unrecoverable_event_is_dead_at_once() {
    let (world, process, handler) = consuming(|_, _| Act::GiveUp).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(100)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 1));
    assert_eq!(handler.calls().len(), 2, "in the group and alone");
    assert_eq!(world.letters().await[0].reason, "消息消费失败: no such paper");
    assert!(world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn neighbours_go_on_while_an_event_backs_off() {
    let (world, process, _) =
        consuming(|ids, _| if ids.contains(&"bad".into()) { Act::Fail } else { Act::Apply }).await;
    world.arrived(&process, "bad", 1, 1).await;
    pass(millis(10)).await;
    for order in 2..30 {
        world.arrived(&process, &format!("good-{order}"), order, 1).await;
    }
    pass(millis(50)).await;
    for order in 2..30 {
        assert_eq!(world.effects(order).await.len(), 1, "order {order}");
    }
    assert_eq!(world.log_status(NAME, "bad").await, Some(ConsumeStatus::Failed));
}

#[tokio::test(start_paused = true)]
async fn of_a_group_with_one_bad_event_the_others_are_applied_and_the_bad_one_alone_is_counted() {
    let world = crate::support::World::new().await;
    let handler = super::scripted::Scripted::new(&world, |ids, _| {
        if ids.contains(&"e-5".into()) { Act::Fail } else { Act::Apply }
    });
    let process = world.process();
    // The consumer is known, but away: a group gathers.
    process.start_consumer(&handler.subscriber(), Default::default()).await;
    process.kill().await;
    let process = world.process();
    for order in 1..=10 {
        world.arrived(&process, &format!("e-{order}"), order, 1).await;
    }
    process.start_consumer(&handler.subscriber(), Default::default()).await;
    pass(millis(50)).await;
    assert_eq!(handler.calls()[0].events.len(), 10, "they came as one group");
    for order in (1..=10).filter(|order| *order != 5) {
        let record = world.log(NAME, &format!("e-{order}")).await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 1));
        assert_eq!(world.effects(order).await.len(), 1);
    }
    let bad = world.log(NAME, "e-5").await.unwrap();
    assert_eq!((bad.status, bad.attempts), (ConsumeStatus::Failed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_a_failed_attempt() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Panic } else { Act::Apply }).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Failed, 1));
    assert!(record.error_message.unwrap().starts_with("消息消费失败"));
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_always_panics_ends_dead() {
    let (world, process, _) = consuming(|_, _| Act::Panic).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(secs(5)).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert_eq!(world.letters().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_handler_is_cut_off_and_counted() {
    let (world, process, _) = consuming(|ids, _| if ids[0] == "bad" { Act::Hang } else { Act::Apply }).await;
    world.arrived(&process, "bad", 1, 1).await;
    pass(secs(12)).await;
    assert_eq!(world.log(NAME, "bad").await, None, "first 2.5 s in the group, then ten seconds alone");
    pass(millis(600)).await;
    let record = world.log(NAME, "bad").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Failed, 1));
    assert_eq!(record.error_message.as_deref(), Some("消息消费失败: handler timed out after 10s"));
    pass(secs(40)).await;
    assert_eq!(world.log_status(NAME, "bad").await, Some(ConsumeStatus::Dead));
    assert_eq!(world.log(NAME, "bad").await.unwrap().attempts, 4);
    world.arrived(&process, "good", 2, 1).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(2).await, ["good"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_always_meets_a_conflict_of_its_own_is_counted_and_ends_dead() {
    let (world, process, handler) = consuming(|_, _| Act::Conflict).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(secs(10)).await;
    assert_eq!(
        world.log_status(NAME, "e-1").await,
        Some(ConsumeStatus::Dead),
        "{} calls",
        handler.calls().len()
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_spends_no_attempt() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    process.faults.set_away(true);
    world.deliver(QUEUE, "e-1").await;
    pass(secs(120)).await;
    assert_eq!(world.log(NAME, "e-1").await, None);
    process.faults.set_away(false);
    eventually(millis(2_100), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Success))
        .await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 1);
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn an_outage_in_the_middle_of_a_counted_attempt_is_no_other_attempt() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    assert_eq!(world.log(NAME, "e-1").await.unwrap().attempts, 1);
    // The second attempt is counted; then the store goes away with its commit, again and again.
    for _ in 0..5 {
        process.faults.next_commits([CommitFault::None, CommitFault::GoesAway]);
        pass(secs(3)).await;
        process.faults.set_away(false);
    }
    pass(secs(60)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 2));
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_count_whose_answer_was_lost_counts_once_and_runs_at_once() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    process.faults.next_commits([CommitFault::AnswerLost]);
    pass(secs(1)).await;
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 2));
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_unknown_outcome_leads_to_one_effect() {
    for fault in [CommitFault::AnswerLost, CommitFault::Lost, CommitFault::Transient] {
        let (world, process, _) = consuming(|_, _| Act::Apply).await;
        world.happened(&process, "e-1", 7, 1).await;
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
async fn an_outage_of_the_broker_delays_and_doubles_nothing() {
    let (world, process, _) = consuming(|_, before| if before < 2 { Act::Fail } else { Act::Apply }).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(50)).await;
    world.broker.set_reachable(false);
    pass(secs(60)).await;
    world.broker.set_reachable(true);
    eventually(secs(3), async || world.is_drained(QUEUE).await).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}
