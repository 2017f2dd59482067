//! Messages addressed to one queue.

use std::time::Instant;

use handover_outbox::ports::{Outgoing, PublishOutcome, Route};

use super::super::within;
use super::ttl::{TTL, when_it_expires};
use super::{
    BrokerRig, KEY, QUEUE, dead_lettered, declare, declare_one, drain, expiring, ids, queue, receive,
    subscribe,
};
use crate::samples::{event_id, message, outgoing, outgoing_with_route};

fn addressed(id: &str, queue: &str) -> Outgoing {
    outgoing_with_route(event_id(id), Route::Queue(queue.to_owned()), message(id))
}

async fn publish(rig: &dyn BrokerRig, window: Vec<Outgoing>) -> Vec<PublishOutcome> {
    within("publish", rig.broker().publish(window)).await.expect("the broker publishes")
}

async fn is_confirmed(rig: &dyn BrokerRig, window: Vec<Outgoing>) {
    let outcomes = publish(rig, window).await;
    let confirmed = |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Confirmed(_));
    assert!(outcomes.iter().all(confirmed), "{outcomes:?}");
}

/// A message for one queue enters that queue once. It enters no other queue, not even one whose binding equals the name
/// of that queue.
pub async fn a_message_for_one_queue_reaches_only_that_queue(rig: &dyn BrokerRig) {
    let specs = [
        queue("book.queue", &["book.queue", "book.*"]),
        queue("everything", &["*.queue", "book.#"]),
        queue("namesake", &["book.queue"]),
        queue("unbound", &[]),
    ];
    declare(rig, &specs).await;
    is_confirmed(rig, vec![addressed("one", "book.queue"), addressed("two", "unbound")]).await;
    let deliveries = drain(rig, "book.queue", 1).await;
    assert_eq!(deliveries[0].message, message("one"));
    assert_eq!((deliveries[0].redelivered, deliveries[0].died_in.as_deref()), (false, None));
    assert_eq!(ids(&drain(rig, "unbound", 1).await), ["two"]);
    drain(rig, "everything", 0).await;
    drain(rig, "namesake", 0).await;
}

/// A message for a queue that does not exist is returned, and only that message; a
/// binding that equals the name of the queue does not match it.
pub async fn a_message_for_a_missing_queue_is_returned(rig: &dyn BrokerRig) {
    declare(rig, &[queue(QUEUE, &[KEY, "nowhere.queue"])]).await;
    let window = vec![
        addressed("here", QUEUE),
        addressed("lost", "nowhere.queue"),
        outgoing("routed", KEY),
        addressed("key", KEY),
    ];
    let outcomes = publish(rig, window).await;
    let returned: Vec<_> = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, PublishOutcome::Returned { .. }))
        .map(|outcome| outcome.event_id().as_str())
        .collect();
    assert_eq!(returned, ["lost", "key"], "{outcomes:?}");
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["here", "routed"]);
}

/// Messages of one window enter a queue in the sequence of the window, whatever their routes.
pub async fn messages_for_one_queue_keep_their_position_in_the_window(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let window = (0..100).map(|n| {
        let id = format!("e{n:02}");
        if n % 3 == 0 { addressed(&id, QUEUE) } else { outgoing(&id, KEY) }
    });
    is_confirmed(rig, window.collect()).await;
    let expected: Vec<_> = (0..100).map(|n| format!("e{n:02}")).collect();
    assert_eq!(ids(&drain(rig, QUEUE, 100).await), expected);
}

/// A waiting consumer is woken by a message for its queue.
pub async fn a_waiting_consumer_is_woken_by_a_message_for_its_queue(rig: &dyn BrokerRig) {
    declare(rig, &[queue("unbound", &[])]).await;
    let consumer = subscribe(rig, "unbound", 5).await;
    let (deliveries, ()) = futures_util::join!(
        receive(consumer.as_ref(), 1),
        is_confirmed(rig, vec![addressed("one", "unbound")])
    );
    assert_eq!(ids(&deliveries), ["one"]);
}

/// A message for one queue expires and is dead-lettered like any other.
pub async fn a_message_for_one_queue_expires_like_any_other(rig: &dyn BrokerRig) {
    let delay = dead_lettered(expiring(queue("delay", &[]), TTL), "late");
    declare(rig, &[delay, queue("target", &["late"])]).await;
    let since = Instant::now();
    is_confirmed(rig, vec![addressed("one", "delay")]).await;
    let consumer = subscribe(rig, "target", 5).await;
    assert_eq!(ids(&[when_it_expires(rig, consumer.as_ref(), since).await]), ["one"]);
}
