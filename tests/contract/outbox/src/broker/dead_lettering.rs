//! Dead-lettering of rejected messages.

use handover_outbox::ports::Requeue;
use handover_outbox::topology::QueueSpec;

use super::super::within;
use super::{
    BrokerRig, KEY, QUEUE, dead_lettered, declare, drain, ids, next, publish, queue, receive, settles_at,
    subscribe, tags,
};

fn rejecting() -> QueueSpec {
    dead_lettered(queue(QUEUE, &[KEY]), "dead")
}

async fn reject(rig: &dyn BrokerRig, name: &str, count: usize) {
    let consumer = subscribe(rig, name, 100).await;
    let unsettled = receive(consumer.as_ref(), count).await;
    within("nack", consumer.nack(&tags(&unsettled), Requeue::No)).await.unwrap();
    within("close", consumer.close()).await.unwrap();
}

/// A rejected message is routed, unchanged, with the dead-letter key of its queue; `died_in` is the name of that queue.
pub async fn a_rejected_message_moves_to_the_dead_letters(rig: &dyn BrokerRig) {
    declare(rig, &[rejecting(), queue("dead.queue", &["dead"])]).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    within("nack", consumer.nack(&tags(&unsettled[..1]), Requeue::No)).await.unwrap();
    settles_at(rig, QUEUE, 0, 1).await;
    let dead = drain(rig, "dead.queue", 1).await.remove(0);
    assert_eq!(dead.died_in.as_deref(), Some(QUEUE));
    assert_eq!(dead.message, unsettled[0].message, "the message must be unchanged");
}

/// Dead letters keep their order and are not marked as redelivered in their new queue.
pub async fn dead_letters_keep_their_order_and_are_not_redelivered(rig: &dyn BrokerRig) {
    declare(rig, &[rejecting(), queue("dead.queue", &["dead"])]).await;
    publish(rig, &["a", "b", "c"]).await;
    reject(rig, QUEUE, 3).await;
    let dead = drain(rig, "dead.queue", 3).await;
    assert_eq!(ids(&dead), ["a", "b", "c"]);
    assert!(dead.iter().all(|delivery| !delivery.redelivered), "{dead:?}");
}

/// A dead letter reaches every queue whose binding matches its key.
pub async fn a_dead_letter_reaches_every_queue_that_matches_its_key(rig: &dyn BrokerRig) {
    declare(
        rig,
        &[rejecting(), queue("one", &["dead"]), queue("two", &["dead.#", KEY]), queue("three", &[KEY])],
    )
    .await;
    publish(rig, &["a"]).await;
    reject(rig, QUEUE, 1).await;
    assert_eq!(ids(&drain(rig, "one", 1).await), ["a"]);
    let both = drain(rig, "two", 2).await;
    assert_eq!(
        both.iter().map(|delivery| delivery.died_in.as_deref()).collect::<Vec<_>>(),
        [None, Some(QUEUE)]
    );
    drain(rig, "three", 1).await;
}

/// `died_in` of a message that was dead-lettered twice is the queue in which it was rejected last.
pub async fn a_message_dead_lettered_twice_names_the_last_queue(rig: &dyn BrokerRig) {
    let second = dead_lettered(queue("second", &["dead"]), "buried");
    declare(rig, &[rejecting(), second, queue("last", &["buried"])]).await;
    publish(rig, &["a"]).await;
    reject(rig, QUEUE, 1).await;
    reject(rig, "second", 1).await;
    let last = drain(rig, "last", 1).await;
    assert_eq!((ids(&last), last[0].died_in.as_deref()), (vec!["a".to_owned()], Some("second")));
}

/// A message that was requeued before it was rejected is dead-lettered like any other.
pub async fn a_redelivered_message_is_dead_lettered_like_any_other(rig: &dyn BrokerRig) {
    declare(rig, &[rejecting(), queue("dead.queue", &["dead"])]).await;
    publish(rig, &["a"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let unsettled = next(consumer.as_ref()).await;
    within("nack", consumer.nack(&tags(&unsettled), Requeue::Yes)).await.unwrap();
    within("close", consumer.close()).await.unwrap();
    reject(rig, QUEUE, 1).await;
    assert_eq!(ids(&drain(rig, "dead.queue", 1).await), ["a"]);
}

/// A consumer that waits for dead letters is woken by a dead letter.
pub async fn a_waiting_consumer_is_woken_by_a_dead_letter(rig: &dyn BrokerRig) {
    declare(rig, &[rejecting(), queue("dead.queue", &["dead"])]).await;
    let drainer = subscribe(rig, "dead.queue", 5).await;
    publish(rig, &["a"]).await;
    let (dead, ()) = tokio::join!(next(drainer.as_ref()), reject(rig, QUEUE, 1));
    assert_eq!(ids(&dead), ["a"]);
}

/// Rejecting a settled message does not dead-letter it.
pub async fn a_settled_message_is_not_dead_lettered(rig: &dyn BrokerRig) {
    declare(rig, &[rejecting(), queue("dead.queue", &["dead"])]).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    super::ack(consumer.as_ref(), &unsettled[..1]).await;
    within("nack", consumer.nack(&tags(&unsettled), Requeue::No)).await.unwrap();
    within("nack", consumer.nack(&tags(&unsettled), Requeue::No)).await.unwrap();
    assert_eq!(ids(&drain(rig, "dead.queue", 1).await), ["b"]);
}

/// A message that was dead-lettered and is published again is delivered without `died_in`.
pub async fn a_message_published_after_its_dead_lettering_has_no_died_in(rig: &dyn BrokerRig) {
    declare(rig, &[rejecting(), queue("dead.queue", &["dead"])]).await;
    publish(rig, &["a"]).await;
    reject(rig, QUEUE, 1).await;
    drain(rig, "dead.queue", 1).await;
    publish(rig, &["a"]).await;
    assert_eq!(drain(rig, QUEUE, 1).await[0].died_in, None);
}
