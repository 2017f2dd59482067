//! The end of a subscription: closed, or dropped.

use handover_outbox::ports::{BrokerError, Requeue};

use super::super::within;
use super::{
    BrokerRig, QUEUE, ack, declare_one, drain, ids, next, publish, receive, settles_at, stays_empty,
    subscribe, tags,
};

/// What a closed subscription had not settled is back in the queue, in its order, marked.
pub async fn a_closed_subscription_returns_what_it_had(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let held = receive(consumer.as_ref(), 3).await;
    ack(consumer.as_ref(), &held[1..2]).await;
    within("close", consumer.close()).await.unwrap();
    let back = drain(rig, QUEUE, 3).await;
    assert_eq!(ids(&back), ["a", "c", "d"]);
    assert_eq!(back.iter().map(|delivery| delivery.redelivered).collect::<Vec<_>>()[..2], [true, true]);
}

/// What a dropped subscription had not settled is back in the queue, in its order, marked.
pub async fn a_dropped_subscription_returns_what_it_had(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let held = receive(consumer.as_ref(), 3).await;
    ack(consumer.as_ref(), &held[1..2]).await;
    drop(consumer);
    settles_at(rig, QUEUE, 3, 0).await;
    let back = drain(rig, QUEUE, 3).await;
    assert_eq!(ids(&back), ["a", "c", "d"]);
    assert_eq!(back.iter().map(|delivery| delivery.redelivered).collect::<Vec<_>>()[..2], [true, true]);
}

/// Another consumer that waits gets what a dropped one had.
pub async fn a_consumer_that_waits_gets_what_a_dropped_one_had(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let gone = subscribe(rig, QUEUE, 3).await;
    receive(gone.as_ref(), 1).await;
    let waiting = subscribe(rig, QUEUE, 3).await;
    let (got, ()) = tokio::join!(next(waiting.as_ref()), async { drop(gone) });
    assert_eq!(ids(&got), ["a"]);
    assert!(got[0].redelivered);
}

/// Another consumer that waits gets what a closed one had.
pub async fn a_consumer_that_waits_gets_what_a_closed_one_had(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let gone = subscribe(rig, QUEUE, 3).await;
    receive(gone.as_ref(), 1).await;
    let waiting = subscribe(rig, QUEUE, 3).await;
    let (got, closed) = tokio::join!(next(waiting.as_ref()), within("close", gone.close()));
    closed.unwrap();
    assert_eq!(ids(&got), ["a"]);
}

/// A closed subscription says so.
pub async fn a_closed_subscription_delivers_no_more(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    within("close", consumer.close()).await.unwrap();
    publish(rig, &["a"]).await;
    match within("next", consumer.next()).await {
        Err(BrokerError::Closed { queue }) => assert_eq!(queue, QUEUE),
        other => panic!("expected it to be closed, got {other:?}"),
    }
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["a"]);
}

/// A call that waits ends when its subscription is closed.
pub async fn a_call_that_waits_ends_with_its_subscription(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let (waited, closed) = tokio::join!(within("next", consumer.next()), within("close", consumer.close()));
    closed.unwrap();
    assert!(matches!(waited, Err(BrokerError::Closed { .. })), "{waited:?}");
}

/// What a closed subscription returned cannot be settled through it: `Ok` would be a lie.
pub async fn a_closed_subscription_settles_nothing(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let held = receive(consumer.as_ref(), 2).await;
    within("close", consumer.close()).await.unwrap();
    let acked = within("ack", consumer.ack(&tags(&held[..1]))).await;
    assert!(acked.is_err(), "it was returned to the queue, and the ack is told it is gone");
    // Nothing can be done for the other one either, whatever the answer.
    drop(within("nack", consumer.nack(&tags(&held[1..]), Requeue::No)).await);
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["a", "b"]);
}

/// Closing again is harmless.
pub async fn a_subscription_can_be_closed_again(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    receive(consumer.as_ref(), 1).await;
    within("close", consumer.close()).await.unwrap();
    drop(within("close", consumer.close()).await);
    drop(consumer);
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["a"]);
}

/// The end of one subscription is not the end of another.
pub async fn other_subscriptions_live_on(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let one = subscribe(rig, QUEUE, 1).await;
    let two = subscribe(rig, QUEUE, 1).await;
    let first = receive(one.as_ref(), 1).await;
    let second = receive(two.as_ref(), 1).await;
    within("close", one.close()).await.unwrap();
    ack(two.as_ref(), &second).await;
    let back = receive(two.as_ref(), 1).await;
    assert_eq!(ids(&back), ids(&first));
    ack(two.as_ref(), &back).await;
    stays_empty(rig, two.as_ref()).await;
}
