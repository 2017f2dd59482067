//! Replays interrupted by a crash, a lost connection, a store outage or a concurrent decision.

use std::sync::{Arc, Mutex};

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::failing_consumer::{DeadLetterFixture, dead_letter_fixture, refusals, with_scripted};
use super::faulty_broker::{FaultyBroker, PublishFault};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{CommitFault, Process, eventually, millis, pass, secs};

/// Starts another process with consumer and drainer, and repairs the consumer.
pub(crate) async fn next_process(fixture: &DeadLetterFixture) -> Process {
    fixture.repair_consumer();
    let process = with_scripted(fixture.world.process(), &fixture.handler);
    process.start_drainer(&[fixture.handler.subscriber()]);
    process.start_consumer(&fixture.handler.subscriber(), ConsumerSettings::default()).await;
    process
}

/// Returns a process for the replay, and the variable that sets the fault of its next publish.
pub(crate) fn replaying_process(fixture: &DeadLetterFixture) -> (Process, Arc<Mutex<Option<PublishFault>>>) {
    let next = Arc::new(Mutex::default());
    let broker = FaultyBroker { broker: fixture.world.broker.clone(), next: Arc::clone(&next) };
    let process = fixture.world.process_on(Arc::new(broker));
    (with_scripted(process, &fixture.handler), next)
}

fn replay() -> ReplayDeadLetters {
    ReplayDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: None }
}

/// Checks that the event was applied once, and that a second replay closes the dead letter without a second effect.
async fn assert_applied_once_and_closed(fixture: &DeadLetterFixture, process: &Process) {
    eventually(secs(12), async || fixture.world.effects(7).await == ["e-1"]).await;
    assert_eq!(fixture.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
    assert_eq!((replayed.replayed, refusals(&replayed)), (1, vec![]));
    assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replayed);
    pass(secs(20)).await;
    assert_eq!(fixture.world.effects(7).await, ["e-1"]);
    assert!(fixture.world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn replay_killed_before_the_publish_is_applied_by_the_sweep() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.process.kill().await;
    let (process, next) = replaying_process(&fixture);
    *next.lock().unwrap() = Some(PublishFault::KilledBefore(process.app.tx.tasks().clone()));
    replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap_err();
    assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(fixture.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    let next = next_process(&fixture).await;
    assert_applied_once_and_closed(&fixture, &next).await;
}

#[tokio::test(start_paused = true)]
async fn replay_killed_after_the_publish_is_applied_by_its_message() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.process.kill().await;
    let (process, next) = replaying_process(&fixture);
    *next.lock().unwrap() = Some(PublishFault::KilledAfter(process.app.tx.tasks().clone()));
    replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap_err();
    assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(fixture.world.depth(QUEUE).await.ready, 1);
    let next = next_process(&fixture).await;
    assert_applied_once_and_closed(&fixture, &next).await;
}

#[tokio::test(start_paused = true)]
async fn replay_with_a_lost_connection_stays_replaying_and_is_applied_once() {
    for fault in [PublishFault::Lost, PublishFault::ReplyLost] {
        let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
        fixture.process.kill().await;
        let (process, next) = replaying_process(&fixture);
        *next.lock().unwrap() = Some(fault);
        let replayed =
            replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
        assert_eq!((replayed.replayed, replayed.refused.len()), (0, 1));
        assert!(
            !replayed.refused[0].why.contains("connection"),
            "the error of the broker must only be logged"
        );
        assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
        let next = next_process(&fixture).await;
        assert_applied_once_and_closed(&fixture, &next).await;
    }
}

#[tokio::test(start_paused = true)]
async fn replay_with_a_store_outage_stays_replaying_and_is_applied_once() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.process.kill().await;
    let (process, _) = replaying_process(&fixture);
    process.faults.next_commits([CommitFault::None, CommitFault::Unavailable]);
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
    assert_eq!((replayed.replayed, replayed.refused.len()), (0, 1));
    assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    let next = next_process(&fixture).await;
    assert_applied_once_and_closed(&fixture, &next).await;
}

#[tokio::test(start_paused = true)]
async fn event_dead_lettered_again_before_the_confirm_stays_open() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let (process, next) = replaying_process(&fixture);
    *next.lock().unwrap() = Some(PublishFault::Late);
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
    assert_eq!(
        (replayed.replayed, refusals(&replayed)),
        (0, vec![("e-1", "the event was dead-lettered again: 消息消费失败: request rejected")])
    );
    assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Open);
    assert_eq!(fixture.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}

#[tokio::test(start_paused = true)]
async fn dead_letter_discarded_before_the_confirm_stays_discarded() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.process.kill().await;
    let (process, next) = replaying_process(&fixture);
    *next.lock().unwrap() = Some(PublishFault::Late);
    let discard = async {
        pass(millis(500)).await;
        let command = DiscardDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: reason() };
        discard_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap()
    };
    let operator = acting(&operator());
    let (replayed, discarded) =
        tokio::join!(replay_dead_letters(&process.app.outbox, &operator, replay()), discard);
    assert_eq!(discarded.discarded, 1);
    assert_eq!(refusals(&replayed.unwrap()), [("e-1", "the dead letter was discarded during its replay")]);
    assert_eq!(fixture.world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
    // The replayed message is in the queue and has no effect.
    assert_eq!(fixture.world.depth(QUEUE).await.ready, 1);
    next_process(&fixture).await;
    pass(secs(20)).await;
    assert!(fixture.world.effects(7).await.is_empty() && fixture.world.is_drained(QUEUE).await);
    assert_eq!(fixture.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}
