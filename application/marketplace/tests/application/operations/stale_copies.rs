//! Stale copies in the dead-letter queue, drained after an operator has decided: they change nothing.

use handover_events::ConsumeStatus;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::failing_consumer::{dead_letter_fixture, park, undrained_fixture, with_scripted};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{TENANT, World, message, millis, pass, secs};

/// Puts a copy of an event into the dead-letter queue, as the broker does after a consumer rejects the message.
async fn dead_letter_in_the_broker(world: &World, id: &str) {
    let row = world.row(id).await;
    assert!(world.broker.inject(QUEUE, message(&row)));
    let subscription = world.broker.subscribe(QUEUE, 1.try_into().unwrap()).await.unwrap();
    let tags: Vec<DeliveryTag> = subscription.next().await.unwrap().iter().map(|it| it.tag).collect();
    subscription.nack(&tags, Requeue::No).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_copy_does_not_dead_letter_a_replayed_event() {
    let fixture = undrained_fixture(&[("e-1", 7)]).await;
    let world = &fixture.world;
    assert_eq!(world.depth(DEAD_LETTER_QUEUE).await.ready, 1);
    fixture.process.kill().await;
    let process = with_scripted(world.process(), &fixture.handler);
    let command = ReplayDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: None };
    assert_eq!(
        replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap().replayed,
        1
    );
    // The copy is drained before the consumer starts.
    process.start_drainer(&[fixture.handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await, "the copy must be acked");
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replayed);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    fixture.repair_consumer();
    process.start_consumer(&fixture.handler.subscriber(), Default::default()).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn replayed_message_dead_lettered_by_the_broker_is_applied_by_the_sweep() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let world = &fixture.world;
    fixture.process.kill().await;
    let process = with_scripted(world.process(), &fixture.handler);
    let command = ReplayDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: None };
    replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    world.broker.purge(QUEUE);
    dead_letter_in_the_broker(world, "e-1").await;
    process.start_drainer(&[fixture.handler.subscriber()]);
    pass(millis(700)).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    fixture.repair_consumer();
    process.start_consumer(&fixture.handler.subscriber(), Default::default()).await;
    pass(secs(12)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn stale_copy_does_not_reopen_a_discarded_dead_letter() {
    let fixture = undrained_fixture(&[("e-1", 7)]).await;
    let world = &fixture.world;
    let discard = DiscardDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: reason() };
    discard_dead_letters(&fixture.process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let decided = world.dead_letter(QUEUE, "e-1").await;
    fixture.process.start_drainer(&[fixture.handler.subscriber()]);
    pass(millis(700)).await;
    // The delivery of another message of the DEAD event does not reopen the dead letter.
    world.deliver(QUEUE, "e-1").await;
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await && world.is_drained(QUEUE).await);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await, decided);
    assert_eq!(decided.status, DeadLetterStatus::Discarded);
}

#[tokio::test(start_paused = true)]
async fn stale_copy_does_not_reopen_a_dead_letter_discarded_during_its_replay() {
    let fixture = undrained_fixture(&[("e-1", 7)]).await;
    let world = &fixture.world;
    world.broker.nack_next(1);
    assert_eq!(fixture.replay(keys(&["e-1"])).await.unwrap().refused.len(), 1);
    let discard = DiscardDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: reason() };
    discard_dead_letters(&fixture.process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let decided = world.dead_letter(QUEUE, "e-1").await;
    fixture.process.start_drainer(&[fixture.handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await, decided);
    assert_eq!(decided.status, DeadLetterStatus::Discarded);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}

#[tokio::test(start_paused = true)]
async fn stale_copy_of_a_dead_letter_discarded_before_its_consumer_existed_is_recorded_dead() {
    let fixture = undrained_fixture(&[]).await;
    let world = &fixture.world;
    fixture.process.kill().await;
    let process = world.process();
    world.commit_event(&process, "e-1", 7, 1).await;
    dead_letter_in_the_broker(world, "e-1").await;
    let dead_letter = DeadLetter {
        queue: QUEUE.into(),
        key: "e-1".into(),
        tenant: TENANT,
        event_type: None,
        trace_id: None,
        body: String::new(),
        reason: "no consumer is registered for the queue".into(),
        died_at: world.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    park(world, &[dead_letter]).await;
    let mut unit = world.store.begin().await.unwrap();
    let decision = Decision {
        queue: QUEUE.into(),
        key: "e-1".into(),
        from: vec![DeadLetterStatus::Open],
        to: DeadLetterStatus::Discarded,
        note: None,
        at: world.now(),
    };
    assert_eq!(unit.outbox().decide(&decision).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    process.start_drainer(&[fixture.handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}
