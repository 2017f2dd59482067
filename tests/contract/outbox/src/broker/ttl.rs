//! Expiry of messages.

use std::time::{Duration, Instant};

use handover_outbox::ports::{Delivery, Requeue, Subscription};
use handover_outbox::topology::QueueSpec;

use super::super::within;
use super::{
    BrokerRig, NOWHERE, ack, dead_lettered, declare, drain, expiring, ids, next, publish_with, queue,
    receive, settles_at, stays_empty, subscribe, tags,
};

pub(super) const TTL: Duration = Duration::from_millis(600);
const MARGIN: Duration = Duration::from_millis(200);
/// A message may expire by this time before its [`TTL`], because a real broker has a clock of its own.
const DRIFT: Duration = Duration::from_millis(20);

/// Receives a message that was published after `since` and expires after [`TTL`]; asserts that it does not arrive
/// early.
///
/// With a simulated clock, nothing may arrive before the rule advances the clock. With a real clock, the time since
/// `since` is checked when the message arrives.
pub(super) async fn when_it_expires(
    rig: &dyn BrokerRig,
    consumer: &dyn Subscription,
    since: Instant,
) -> Delivery {
    if rig.capabilities().simulated_clock {
        rig.advance(TTL - MARGIN / 2).await;
        stays_empty(rig, consumer).await;
        rig.advance(MARGIN).await;
        receive(consumer, 1).await.remove(0)
    } else {
        let delivery = receive(consumer, 1).await.remove(0);
        let age = since.elapsed();
        assert!(age + DRIFT >= TTL, "the message expired after {age:?}, before its TTL of {TTL:?}");
        delivery
    }
}

fn delay() -> QueueSpec {
    dead_lettered(expiring(queue("delay", &["later"]), TTL), "due")
}

/// An expired message is routed, unchanged, with the dead-letter key of its queue, and not before its TTL has passed.
pub async fn a_message_is_dead_lettered_when_it_expires_and_not_before(rig: &dyn BrokerRig) {
    declare(rig, &[delay(), queue("due", &["due"])]).await;
    let consumer = subscribe(rig, "due", 5).await;
    let since = Instant::now();
    publish_with(rig, "later", &["a"]).await;
    if rig.capabilities().simulated_clock {
        settles_at(rig, "delay", 1, 0).await;
    }
    let due = when_it_expires(rig, consumer.as_ref(), since).await;
    assert_eq!(due.message, *crate::samples::outgoing("a", "later").message());
    assert!(!due.redelivered, "a message that was never delivered must not be marked as redelivered");
    settles_at(rig, "delay", 0, 0).await;
}

/// A waiting consumer is woken when an expired message is routed to its queue.
pub async fn a_waiting_consumer_is_woken_by_an_expiry(rig: &dyn BrokerRig) {
    declare(rig, &[delay(), queue("due", &["due"])]).await;
    let consumer = subscribe(rig, "due", 5).await;
    for id in ["a", "b"] {
        let (due, ()) = tokio::join!(next(consumer.as_ref()), async {
            publish_with(rig, "later", &[id]).await;
            rig.advance(TTL + MARGIN).await;
        });
        assert_eq!(ids(&due), [id]);
        ack(consumer.as_ref(), &due).await;
    }
}

/// Messages that expired while no consumer was subscribed are delivered later.
pub async fn messages_expired_without_a_consumer_are_delivered(rig: &dyn BrokerRig) {
    declare(rig, &[delay(), queue("due", &["due"])]).await;
    publish_with(rig, "later", &["a", "b"]).await;
    rig.advance(TTL * 3).await;
    assert_eq!(ids(&drain(rig, "due", 2).await), ["a", "b"]);
}

/// Each message expires when the TTL since its own arrival has passed, so messages expire in the order of arrival.
pub async fn each_message_expires_at_its_own_time(rig: &dyn BrokerRig) {
    declare(rig, &[delay(), queue("due", &["due"])]).await;
    let consumer = subscribe(rig, "due", 5).await;
    publish_with(rig, "later", &["a", "b"]).await;
    rig.advance(TTL / 2).await;
    let since = Instant::now();
    publish_with(rig, "later", &["c"]).await;
    if rig.capabilities().simulated_clock {
        rig.advance(TTL / 2 + MARGIN).await;
        assert_eq!(ids(&receive(consumer.as_ref(), 2).await), ["a", "b"]);
        stays_empty(rig, consumer.as_ref()).await;
        rig.advance(TTL / 2).await;
        assert_eq!(ids(&receive(consumer.as_ref(), 1).await), ["c"]);
    } else {
        // The time between the arrivals is not checked: it depends on the load of the machine.
        assert_eq!(ids(&receive(consumer.as_ref(), 3).await), ["a", "b", "c"]);
        let age = since.elapsed();
        assert!(age + DRIFT >= TTL, "the last message expired after {age:?}, before its TTL of {TTL:?}");
    }
}

/// An expired message is dropped if its queue has no dead-letter key.
pub async fn an_expired_message_is_dropped_without_a_dead_letter_key(rig: &dyn BrokerRig) {
    declare(rig, &[expiring(queue("short", &["later"]), TTL), queue("due", &["due"])]).await;
    publish_with(rig, "later", &["a"]).await;
    rig.advance(TTL + MARGIN).await;
    drain(rig, "short", 0).await;
    drain(rig, "due", 0).await;
}

/// An expired message whose dead-letter key matches no binding is dropped and does not affect other messages.
pub async fn an_unroutable_expired_message_is_dropped(rig: &dyn BrokerRig) {
    let lost = dead_lettered(expiring(queue("lost", &["lost"]), TTL), NOWHERE);
    declare(rig, &[lost, delay(), queue("due", &["due"])]).await;
    publish_with(rig, "lost", &["a"]).await;
    publish_with(rig, "later", &["b"]).await;
    rig.advance(TTL + MARGIN).await;
    assert_eq!(ids(&drain(rig, "due", 1).await), ["b"]);
}

/// Without a TTL messages do not expire.
pub async fn without_a_ttl_nothing_expires(rig: &dyn BrokerRig) {
    declare(rig, &[delay(), queue("due", &["due", "now"])]).await;
    publish_with(rig, "now", &["a"]).await;
    rig.advance(TTL * 3).await;
    assert_eq!(ids(&drain(rig, "due", 1).await), ["a"]);
}

/// `died_in` of an expired message is `None`, because no consumer rejected the message. If a consumer rejects it
/// later, `died_in` is the queue of that consumer.
pub async fn an_expired_message_that_is_rejected_names_the_rejecting_queue(rig: &dyn BrokerRig) {
    let due = dead_lettered(queue("due", &["due"]), "dead");
    declare(rig, &[delay(), due, queue("dead", &["dead"])]).await;
    publish_with(rig, "later", &["a"]).await;
    rig.advance(TTL + MARGIN).await;
    let consumer = subscribe(rig, "due", 5).await;
    let unsettled = receive(consumer.as_ref(), 1).await;
    assert_eq!(unsettled[0].died_in, None, "no consumer rejected the message yet");
    within("nack", consumer.nack(&tags(&unsettled), Requeue::No)).await.unwrap();
    assert_eq!(drain(rig, "dead", 1).await[0].died_in.as_deref(), Some("due"));
}
