//! Copies in the dead-letter queue that come after a person has decided: they change nothing.

use handover_events::ConsumeStatus;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::broken::{broken, broken_undrained, park, with_scripted};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{TENANT, World, message, millis, pass, secs};

/// Puts a copy of an event into the dead-letter queue, as its own queue would.
async fn die_in_the_broker(world: &World, id: &str) {
    let row = world.row(id).await;
    assert!(world.broker.inject(QUEUE, message(&row)));
    let subscription = world.broker.subscribe(QUEUE, 1.try_into().unwrap()).await.unwrap();
    let tags: Vec<DeliveryTag> = subscription.next().await.unwrap().iter().map(|it| it.tag).collect();
    subscription.nack(&tags, Requeue::No).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_copy_from_before_a_replay_does_not_kill_the_replayed_event() {
    let broken = broken_undrained(&[("e-1", 7)]).await;
    let world = &broken.world;
    assert_eq!(world.depth(DEAD_LETTER_QUEUE).await.ready, 1);
    broken.process.kill().await;
    let process = with_scripted(world.process(), &broken.handler);
    let command = ReplayLetters { letters: keys(&["e-1"]), dry_run: false, reason: None };
    assert_eq!(
        replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap().replayed,
        1
    );
    // The copy is drained before the consumer begins.
    process.start_drainer(&[broken.handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await, "it is acked");
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replayed);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    broken.mend();
    process.start_consumer(&broken.handler.subscriber(), Default::default()).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_replayed_message_that_the_broker_gives_up_is_applied_by_the_sweep() {
    let broken = broken(&[("e-1", 7)]).await;
    let world = &broken.world;
    broken.process.kill().await;
    let process = with_scripted(world.process(), &broken.handler);
    let command = ReplayLetters { letters: keys(&["e-1"]), dry_run: false, reason: None };
    replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    world.broker.purge(QUEUE);
    die_in_the_broker(world, "e-1").await;
    process.start_drainer(&[broken.handler.subscriber()]);
    pass(millis(700)).await;
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    broken.mend();
    process.start_consumer(&broken.handler.subscriber(), Default::default()).await;
    pass(secs(12)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_from_before_a_discard_does_not_open_the_letter_again() {
    let broken = broken_undrained(&[("e-1", 7)]).await;
    let world = &broken.world;
    let discard = DiscardLetters { letters: keys(&["e-1"]), dry_run: false, reason: reason() };
    discard_dead_letters(&broken.process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let decided = world.letter(QUEUE, "e-1").await;
    broken.process.start_drainer(&[broken.handler.subscriber()]);
    pass(millis(700)).await;
    // Nor does a message that comes again and finds the event dead.
    world.deliver(QUEUE, "e-1").await;
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await && world.is_drained(QUEUE).await);
    assert_eq!(world.letter(QUEUE, "e-1").await, decided);
    assert_eq!(decided.status, DeadLetterStatus::Discarded);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_was_discarded_while_it_was_replayed_leaves_it_discarded_and_dead() {
    let broken = broken_undrained(&[("e-1", 7)]).await;
    let world = &broken.world;
    world.broker.nack_next(1);
    assert_eq!(broken.replay(keys(&["e-1"])).await.unwrap().refused.len(), 1);
    let discard = DiscardLetters { letters: keys(&["e-1"]), dry_run: false, reason: reason() };
    discard_dead_letters(&broken.process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let decided = world.letter(QUEUE, "e-1").await;
    broken.process.start_drainer(&[broken.handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await);
    assert_eq!(world.letter(QUEUE, "e-1").await, decided);
    assert_eq!(decided.status, DeadLetterStatus::Discarded);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_was_discarded_before_its_consumer_was_known_is_dead_and_opens_nothing() {
    let broken = broken_undrained(&[]).await;
    let world = &broken.world;
    broken.process.kill().await;
    let process = world.process();
    world.happened(&process, "e-1", 7, 1).await;
    die_in_the_broker(world, "e-1").await;
    let letter = DeadLetter {
        queue: QUEUE.into(),
        key: "e-1".into(),
        tenant: TENANT,
        event_type: None,
        trace_id: None,
        body: String::new(),
        reason: "no consumer works there".into(),
        died_at: world.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    park(world, &[letter]).await;
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
    process.start_drainer(&[broken.handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await);
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}
