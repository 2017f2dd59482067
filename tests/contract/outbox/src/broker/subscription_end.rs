//! The end of a subscription: closed or dropped.

use handover_outbox::ports::{BrokerError, Requeue};

use super::super::within;
use super::{
    BrokerRig, QUEUE, ack, declare_one, drain, ids, next, publish, receive, settles_at, stays_empty,
    subscribe, tags,
};

/// Unsettled messages of a closed subscription return to the queue in order, marked as redelivered.
pub async fn a_closed_subscription_returns_its_unsettled_messages(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let unsettled = receive(consumer.as_ref(), 3).await;
    ack(consumer.as_ref(), &unsettled[1..2]).await;
    within("close", consumer.close()).await.unwrap();
    let returned = drain(rig, QUEUE, 3).await;
    assert_eq!(ids(&returned), ["a", "c", "d"]);
    assert_eq!(returned.iter().map(|delivery| delivery.redelivered).collect::<Vec<_>>()[..2], [true, true]);
}

/// Unsettled messages of a dropped subscription return to the queue in order, marked as redelivered.
pub async fn a_dropped_subscription_returns_its_unsettled_messages(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let unsettled = receive(consumer.as_ref(), 3).await;
    ack(consumer.as_ref(), &unsettled[1..2]).await;
    drop(consumer);
    settles_at(rig, QUEUE, 3, 0).await;
    let returned = drain(rig, QUEUE, 3).await;
    assert_eq!(ids(&returned), ["a", "c", "d"]);
    assert_eq!(returned.iter().map(|delivery| delivery.redelivered).collect::<Vec<_>>()[..2], [true, true]);
}

/// A waiting consumer receives the unsettled messages of a dropped consumer.
pub async fn a_waiting_consumer_receives_the_messages_of_a_dropped_consumer(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let first = subscribe(rig, QUEUE, 3).await;
    receive(first.as_ref(), 1).await;
    let waiting = subscribe(rig, QUEUE, 3).await;
    let (got, ()) = tokio::join!(next(waiting.as_ref()), async { drop(first) });
    assert_eq!(ids(&got), ["a"]);
    assert!(got[0].redelivered);
}

/// A waiting consumer receives the unsettled messages of a closed consumer.
pub async fn a_waiting_consumer_receives_the_messages_of_a_closed_consumer(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let first = subscribe(rig, QUEUE, 3).await;
    receive(first.as_ref(), 1).await;
    let waiting = subscribe(rig, QUEUE, 3).await;
    let (got, closed) = tokio::join!(next(waiting.as_ref()), within("close", first.close()));
    closed.unwrap();
    assert_eq!(ids(&got), ["a"]);
}

/// After `close`, `next` returns `Closed`; later messages stay in the queue.
pub async fn a_closed_subscription_delivers_nothing(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    within("close", consumer.close()).await.unwrap();
    publish(rig, &["a"]).await;
    match within("next", consumer.next()).await {
        Err(BrokerError::Closed { queue }) => assert_eq!(queue, QUEUE),
        other => panic!("expected `Closed`, got {other:?}"),
    }
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["a"]);
}

/// A waiting `next` returns `Closed` when its subscription is closed.
pub async fn a_waiting_call_ends_when_its_subscription_is_closed(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let (waited, closed) = tokio::join!(within("next", consumer.next()), within("close", consumer.close()));
    closed.unwrap();
    assert!(matches!(waited, Err(BrokerError::Closed { .. })), "{waited:?}");
}

/// Messages of a closed subscription cannot be settled through it: an ack returns an error.
pub async fn a_closed_subscription_settles_nothing(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    within("close", consumer.close()).await.unwrap();
    let acked = within("ack", consumer.ack(&tags(&unsettled[..1]))).await;
    assert!(acked.is_err(), "the message returned to the queue, so the ack must fail");
    // The result of this nack does not matter: the message is in the queue again.
    drop(within("nack", consumer.nack(&tags(&unsettled[1..]), Requeue::No)).await);
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["a", "b"]);
}

/// Closing a closed subscription has no effect.
pub async fn a_subscription_can_be_closed_twice(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    receive(consumer.as_ref(), 1).await;
    within("close", consumer.close()).await.unwrap();
    drop(within("close", consumer.close()).await);
    drop(consumer);
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["a"]);
}

/// Closing one subscription does not affect another.
pub async fn closing_a_subscription_does_not_affect_others(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let one = subscribe(rig, QUEUE, 1).await;
    let two = subscribe(rig, QUEUE, 1).await;
    let first = receive(one.as_ref(), 1).await;
    let second = receive(two.as_ref(), 1).await;
    within("close", one.close()).await.unwrap();
    ack(two.as_ref(), &second).await;
    let returned = receive(two.as_ref(), 1).await;
    assert_eq!(ids(&returned), ids(&first));
    ack(two.as_ref(), &returned).await;
    stays_empty(rig, two.as_ref()).await;
}
