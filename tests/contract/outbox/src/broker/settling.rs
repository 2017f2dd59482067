//! Acks and nacks.

use handover_outbox::ports::Requeue;

use super::super::within;
use super::{
    BrokerRig, QUEUE, ack, declare_one, drain, ids, next, publish, receive, settles_at, stays_empty,
    subscribe, tags,
};

/// An acked message is deleted.
pub async fn an_acked_message_is_deleted(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let deliveries = receive(consumer.as_ref(), 3).await;
    ack(consumer.as_ref(), &deliveries[..2]).await;
    within("close", consumer.close()).await.unwrap();
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["c"]);
    settles_at(rig, QUEUE, 0, 0).await;
}

/// Settling a delivery that is already settled is not an error and changes nothing.
pub async fn settling_a_settled_delivery_changes_nothing(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let unsettled = receive(consumer.as_ref(), 3).await;
    ack(consumer.as_ref(), &unsettled[..1]).await;
    ack(consumer.as_ref(), &unsettled[..1]).await;
    within("nack", consumer.nack(&tags(&unsettled[..1]), Requeue::Yes))
        .await
        .expect("a nack of a settled delivery must be ignored");
    ack(consumer.as_ref(), &unsettled[..2]).await;
    ack(consumer.as_ref(), &[]).await;
    stays_empty(rig, consumer.as_ref()).await;
    settles_at(rig, QUEUE, 0, 1).await;
    within("close", consumer.close()).await.unwrap();
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["c"]);
}

/// Deliveries can be settled in any order and any number at a time.
pub async fn deliveries_are_settled_in_any_order(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d", "e"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let unsettled = receive(consumer.as_ref(), 5).await;
    ack(consumer.as_ref(), &[unsettled[4].clone(), unsettled[1].clone()]).await;
    ack(consumer.as_ref(), &[unsettled[3].clone()]).await;
    within("close", consumer.close()).await.unwrap();
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["a", "c"]);
}

/// A requeued message is delivered again and marked as redelivered; the first delivery is not marked.
pub async fn a_requeued_message_is_marked_as_redelivered(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    for attempt in 0..4 {
        let deliveries = next(consumer.as_ref()).await;
        assert_eq!(ids(&deliveries), ["a"]);
        assert_eq!(deliveries[0].redelivered, attempt > 0, "at attempt {attempt}");
        within("nack", consumer.nack(&tags(&deliveries), Requeue::Yes)).await.unwrap();
    }
    settles_at(rig, QUEUE, 1, 0).await;
}

/// A requeued message is delivered before waiting messages, if the broker requeues near the head.
pub async fn a_requeued_message_precedes_waiting_messages(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d", "e", "f"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let unsettled = receive(consumer.as_ref(), 3).await;
    within("nack", consumer.nack(&tags(&unsettled[1..2]), Requeue::Yes)).await.unwrap();
    let again = receive(consumer.as_ref(), 1).await;
    if rig.capabilities().requeues_near_the_head {
        assert_eq!(ids(&again), ["b"], "the requeued message must precede the waiting messages");
        assert!(again[0].redelivered);
    }
}

/// Messages that are requeued in one call are delivered again in the same sequence.
pub async fn messages_requeued_together_keep_their_order(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d", "e"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let unsettled = receive(consumer.as_ref(), 3).await;
    within("nack", consumer.nack(&tags(&unsettled), Requeue::Yes)).await.unwrap();
    within("close", consumer.close()).await.unwrap();
    let all = drain(rig, QUEUE, 5).await;
    let marked: Vec<_> = all.iter().map(|delivery| delivery.redelivered).collect();
    if rig.capabilities().requeues_near_the_head {
        assert_eq!(ids(&all), ["a", "b", "c", "d", "e"]);
        assert_eq!(
            marked,
            [true, true, true, false, false],
            "only messages that were delivered before may be marked as redelivered"
        );
    } else {
        // RabbitMQ may have sent "d" and "e" to the closed consumer; then these are also marked as redelivered.
        assert_eq!(ids(&all), ["d", "e", "a", "b", "c"]);
        assert_eq!(marked[2..], [true, true, true]);
    }
}

/// A requeued message can be delivered to any consumer.
pub async fn a_requeued_message_may_be_delivered_to_another_consumer(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let one = subscribe(rig, QUEUE, 2).await;
    let unsettled = receive(one.as_ref(), 2).await;
    let two = subscribe(rig, QUEUE, 2).await;
    let first = tags(&unsettled[..1]);
    // Any consumer with a free prefetch slot may receive the message, including the one that requeued it.
    let received = async {
        tokio::select! {
            got = next(two.as_ref()) => got,
            got = next(one.as_ref()) => got,
        }
    };
    let (got, nacked) = tokio::join!(received, within("nack", one.nack(&first, Requeue::Yes)));
    nacked.unwrap();
    assert_eq!(ids(&got), ["a"]);
    assert!(got[0].redelivered);
}

/// A rejected message is dropped if its queue has no dead-letter key.
pub async fn a_rejected_message_is_dropped_without_a_dead_letter_key(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    within("nack", consumer.nack(&tags(&unsettled[..1]), Requeue::No)).await.unwrap();
    settles_at(rig, QUEUE, 0, 1).await;
    within("close", consumer.close()).await.unwrap();
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["b"]);
}

/// A rejected message frees its prefetch slot, like an acked one.
pub async fn a_rejected_message_frees_its_prefetch_slot(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 1).await;
    let unsettled = receive(consumer.as_ref(), 1).await;
    within("nack", consumer.nack(&tags(&unsettled), Requeue::No)).await.unwrap();
    assert_eq!(ids(&receive(consumer.as_ref(), 1).await), ["b"]);
}
