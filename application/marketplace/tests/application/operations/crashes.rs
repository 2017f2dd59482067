//! A replay whose process ends, or loses the broker, between its steps: the event is applied once all the same.

use std::sync::{Arc, Mutex};

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::broken::{Broken, broken, whys, with_scripted};
use super::carrier::{Carrier, Fate};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{CommitFault, Process, eventually, millis, pass, secs};

/// Another process that consumes and drains.
pub(crate) async fn successor(broken: &Broken) -> Process {
    broken.mend();
    let process = with_scripted(broken.world.process(), &broken.handler);
    process.start_drainer(&[broken.handler.subscriber()]);
    process.start_consumer(&broken.handler.subscriber(), ConsumerSettings::default()).await;
    process
}

/// A process that will replay, and what happens to its next publish.
pub(crate) fn replayer(broken: &Broken) -> (Process, Arc<Mutex<Option<Fate>>>) {
    let next = Arc::new(Mutex::default());
    let carrier = Carrier { broker: broken.world.broker.clone(), next: Arc::clone(&next) };
    let process = broken.world.process_on(Arc::new(carrier));
    (with_scripted(process, &broken.handler), next)
}

fn replay() -> ReplayLetters {
    ReplayLetters { letters: keys(&["e-1"]), dry_run: false, reason: None }
}

/// It was applied once, and a second replay closes the letter without a second effect.
async fn applied_once_and_closed(broken: &Broken, process: &Process) {
    eventually(secs(12), async || broken.world.effects(7).await == ["e-1"]).await;
    assert_eq!(broken.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
    assert_eq!((replayed.replayed, whys(&replayed)), (1, vec![]));
    assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replayed);
    pass(secs(20)).await;
    assert_eq!(broken.world.effects(7).await, ["e-1"]);
    assert!(broken.world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn killed_before_it_is_published_the_event_is_applied_by_the_sweep() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.process.kill().await;
    let (process, next) = replayer(&broken);
    *next.lock().unwrap() = Some(Fate::KilledBefore(process.app.tx.tasks.clone()));
    replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap_err();
    assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(broken.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    let next = successor(&broken).await;
    applied_once_and_closed(&broken, &next).await;
}

#[tokio::test(start_paused = true)]
async fn killed_before_it_is_closed_the_event_is_applied_by_its_message() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.process.kill().await;
    let (process, next) = replayer(&broken);
    *next.lock().unwrap() = Some(Fate::KilledAfter(process.app.tx.tasks.clone()));
    replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap_err();
    assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(broken.world.depth(QUEUE).await.ready, 1);
    let next = successor(&broken).await;
    applied_once_and_closed(&broken, &next).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_lost_on_either_side_of_the_publish_leaves_it_replaying_and_applies_it_once() {
    for fate in [Fate::Lost, Fate::AnswerLost] {
        let broken = broken(&[("e-1", 7)]).await;
        broken.process.kill().await;
        let (process, next) = replayer(&broken);
        *next.lock().unwrap() = Some(fate);
        let replayed =
            replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
        assert_eq!((replayed.replayed, replayed.refused.len()), (0, 1));
        assert!(!replayed.refused[0].why.contains("connection"), "what the broker says is for the log");
        assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
        let next = successor(&broken).await;
        applied_once_and_closed(&broken, &next).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_before_it_is_closed_leaves_it_replaying_and_applies_it_once() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.process.kill().await;
    let (process, _) = replayer(&broken);
    process.faults.next_commits([CommitFault::None, CommitFault::GoesAway]);
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
    assert_eq!((replayed.replayed, replayed.refused.len()), (0, 1));
    assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    let next = successor(&broken).await;
    applied_once_and_closed(&broken, &next).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_dies_again_before_its_confirm_stays_open() {
    let broken = broken(&[("e-1", 7)]).await;
    let (process, next) = replayer(&broken);
    *next.lock().unwrap() = Some(Fate::Late);
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), replay()).await.unwrap();
    assert_eq!(
        (replayed.replayed, whys(&replayed)),
        (0, vec![("e-1", "it was dead-lettered again: 消息消费失败: no such paper")])
    );
    assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Open);
    assert_eq!(broken.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_discarded_before_its_confirm_stays_discarded() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.process.kill().await;
    let (process, next) = replayer(&broken);
    *next.lock().unwrap() = Some(Fate::Late);
    let discard = async {
        pass(millis(500)).await;
        let command = DiscardLetters { letters: keys(&["e-1"]), dry_run: false, reason: reason() };
        discard_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap()
    };
    let operator = acting(&operator());
    let (replayed, discarded) =
        tokio::join!(replay_dead_letters(&process.app.outbox, &operator, replay()), discard);
    assert_eq!(discarded.discarded, 1);
    assert_eq!(whys(&replayed.unwrap()), [("e-1", "it was discarded in the meantime")]);
    assert_eq!(broken.world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
    // Its message is in the queue, and changes nothing.
    assert_eq!(broken.world.depth(QUEUE).await.ready, 1);
    successor(&broken).await;
    pass(secs(20)).await;
    assert!(broken.world.effects(7).await.is_empty() && broken.world.is_drained(QUEUE).await);
    assert_eq!(broken.world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}
