//! Delivery of messages to consumers.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{MAX_POLLS, cancel_after_polls, within};
use super::{
    BrokerRig, KEY, QUEUE, ack, declare, declare_one, ids, next, publish, publish_as, queue, receive,
    settles_at, stays_empty, stays_pending, subscribe, tags,
};
use crate::samples::outgoing;

/// Messages are delivered in the order in which they entered the queue, whatever the prefetch.
pub async fn messages_are_delivered_in_queue_order(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let names: Vec<String> = (0..60).map(|n| format!("e{n:02}")).collect();
    publish(rig, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (prefetch, share) in [(1, 10), (7, 20), (200, 30)] {
        let consumer = subscribe(rig, QUEUE, prefetch).await;
        let mut seen = Vec::new();
        while seen.len() < share {
            let deliveries = next(consumer.as_ref()).await;
            ack(consumer.as_ref(), &deliveries[..deliveries.len().min(share - seen.len())]).await;
            seen.extend(ids(&deliveries));
        }
        within("close", consumer.close()).await.unwrap();
        let done: usize = [(1, 0), (7, 10), (200, 30)].iter().find(|(p, _)| *p == prefetch).unwrap().1;
        assert_eq!(seen[..share], names[done..done + share], "with a prefetch of {prefetch}");
    }
}

/// The number of unsettled deliveries never exceeds the prefetch.
pub async fn unsettled_deliveries_never_exceed_the_prefetch(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b", "c", "d", "e"]).await;
    let consumer = subscribe(rig, QUEUE, 3).await;
    let mut unsettled = receive(consumer.as_ref(), 3).await;
    assert_eq!(ids(&unsettled), ["a", "b", "c"]);
    stays_empty(rig, consumer.as_ref()).await;
    ack(consumer.as_ref(), &unsettled[1..2]).await;
    unsettled.extend(receive(consumer.as_ref(), 1).await);
    assert_eq!(ids(&unsettled), ["a", "b", "c", "d"]);
    stays_empty(rig, consumer.as_ref()).await;
    ack(consumer.as_ref(), &[unsettled[0].clone(), unsettled[2].clone(), unsettled[3].clone()]).await;
    assert_eq!(ids(&receive(consumer.as_ref(), 1).await), ["e"]);
}

/// A waiting consumer is woken by a published message.
pub async fn a_waiting_consumer_is_woken_by_a_message(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    for n in 0..5 {
        let id = format!("e{n}");
        let (deliveries, _) = tokio::join!(next(consumer.as_ref()), async {
            // `join!` has polled the waiting `next` before this publish.
            publish_as(rig, &[(&id, KEY)]).await
        });
        assert_eq!(ids(&deliveries), [id]);
        ack(consumer.as_ref(), &deliveries).await;
    }
}

/// A consumer receives only messages of its own queue.
pub async fn a_consumer_receives_only_messages_of_its_own_queue(rig: &dyn BrokerRig) {
    declare(rig, &[queue(QUEUE, &[KEY]), queue("other.queue", &["other"])]).await;
    let consumer = subscribe(rig, QUEUE, 5).await;
    publish_as(rig, &[("x", "other"), ("y", "other")]).await;
    stays_empty(rig, consumer.as_ref()).await;
    publish(rig, &["own"]).await;
    assert_eq!(ids(&receive(consumer.as_ref(), 1).await), ["own"]);
}

/// A consumer at its prefetch limit receives the next message after it settled one.
pub async fn a_consumer_at_its_prefetch_limit_continues_after_an_ack(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 1).await;
    let first = receive(consumer.as_ref(), 1).await;
    let (second, ()) = tokio::join!(next(consumer.as_ref()), ack(consumer.as_ref(), &first));
    assert_eq!(ids(&second), ["b"]);
}

/// Two consumers of a queue share its messages; each message is delivered to one of them, once.
pub async fn two_consumers_share_messages_without_overlap(rig: &dyn BrokerRig) {
    const MESSAGES: usize = 60;
    declare_one(rig).await;
    let (sender, mut seen_by_both) = tokio::sync::mpsc::unbounded_channel();
    let mut consumers = Vec::new();
    for _ in 0..2 {
        let consumer = subscribe(rig, QUEUE, 4).await;
        let sender = sender.clone();
        consumers.push(tokio::spawn(async move {
            loop {
                let deliveries = consumer.next().await.unwrap();
                for delivery in &deliveries {
                    sender.send(delivery.clone()).unwrap();
                }
                consumer.ack(&tags(&deliveries)).await.unwrap();
            }
        }));
    }
    let names: Vec<String> = (0..MESSAGES).map(|n| format!("e{n:02}")).collect();
    publish(rig, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut seen = Vec::new();
    while seen.len() < MESSAGES {
        seen.push(within("every message", seen_by_both.recv()).await.expect("both consumers ended early"));
    }
    assert!(seen.iter().all(|delivery| !delivery.redelivered), "{seen:?}");
    let mut seen = ids(&seen);
    seen.sort();
    assert_eq!(seen, names);
    settles_at(rig, QUEUE, 0, 0).await;
    assert!(seen_by_both.try_recv().is_err(), "a message was delivered twice");
    for consumer in consumers {
        consumer.abort();
    }
}

/// A consumer at its prefetch limit does not prevent deliveries to another consumer.
pub async fn a_consumer_at_its_prefetch_limit_leaves_messages_to_another(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let one = subscribe(rig, QUEUE, 1).await;
    let first = receive(one.as_ref(), 1).await;
    let two = subscribe(rig, QUEUE, 1).await;
    let second = receive(two.as_ref(), 1).await;
    assert_eq!([ids(&first), ids(&second)].concat(), ["a", "b"]);
    stays_empty(rig, one.as_ref()).await;
}

/// No message is lost if `next` is cancelled at any point: after the subscription is closed, the message is delivered
/// to another subscription.
pub async fn a_next_cancelled_at_any_point_loses_no_message(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    for polls in 0..MAX_POLLS {
        let names = ["a", "b", "c"].map(|id| format!("{id}{polls}"));
        publish(rig, &names.each_ref().map(String::as_str)).await;
        let consumer = subscribe(rig, QUEUE, 10).await;
        let result = within("a cancelled next", cancel_after_polls(polls, consumer.next())).await;
        let done = result.is_some();
        let mut seen = match result {
            Some(deliveries) => {
                let deliveries = deliveries.unwrap();
                ack(consumer.as_ref(), &deliveries).await;
                ids(&deliveries)
            }
            None => Vec::new(),
        };
        within("close", consumer.close()).await.unwrap();
        let rest = subscribe(rig, QUEUE, 10).await;
        let left = receive(rest.as_ref(), names.len() - seen.len()).await;
        ack(rest.as_ref(), &left).await;
        seen.extend(ids(&left));
        seen.sort();
        assert_eq!(seen, names, "after {polls} polls");
        stays_empty(rig, rest.as_ref()).await;
        within("close", rest.close()).await.unwrap();
        if done {
            return;
        }
    }
    panic!("next is not done after {MAX_POLLS} polls");
}

/// A consumer whose waiting calls are cancelled repeatedly, as by a loop with a timeout, misses no message.
pub async fn a_consumer_with_cancelled_calls_misses_no_message(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 10).await;
    for polls in 1..12 {
        assert!(
            within("a cancelled next", cancel_after_polls(1, consumer.next())).await.is_none(),
            "`next` returned without a message"
        );
        let id = format!("e{polls}");
        publish(rig, &[&id]).await;
        let got = next(consumer.as_ref()).await;
        assert_eq!(ids(&got), [id]);
        ack(consumer.as_ref(), &got).await;
    }
}

/// If the caller of `publish` is cancelled, the broker stores the first n messages of the window (n may be 0), in order
/// and each once, and still works. It may store them later: a server may still run the last statement.
pub async fn a_publish_cancelled_at_any_point_does_not_affect_the_broker(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let mut seen: Vec<String> = Vec::new();
    let mut windows: Vec<Vec<String>> = Vec::new();
    for polls in 0..MAX_POLLS {
        let window = Vec::from(["a", "b", "c"].map(|id| format!("{id}{polls}")));
        let messages = window.iter().map(|id| outgoing(id, KEY)).collect();
        let broker = rig.broker();
        let result = within("a cancelled publish", cancel_after_polls(polls, broker.publish(messages))).await;
        let last = format!("last{polls}");
        publish(rig, &[&last]).await;
        let consumer = subscribe(rig, QUEUE, 10).await;
        while !seen.contains(&last) {
            let deliveries = next(consumer.as_ref()).await;
            ack(consumer.as_ref(), &deliveries).await;
            seen.extend(ids(&deliveries));
        }
        within("close", consumer.close()).await.unwrap();
        let stored =
            |window: &[String]| seen.iter().filter(|id| window.contains(id)).cloned().collect::<Vec<_>>();
        if result.is_some() {
            assert_eq!(stored(&window), window);
        }
        windows.push(window);
        for window in &windows {
            assert!(window.starts_with(&stored(window)), "{seen:?}");
        }
        if result.is_some() {
            return;
        }
    }
    panic!("publish is not done after {MAX_POLLS} polls");
}

/// Every delivery of a subscription has a different tag.
pub async fn every_delivery_has_a_different_tag(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumer = subscribe(rig, QUEUE, 20).await;
    let mut tags = BTreeSet::new();
    for round in 0..5 {
        let names: Vec<String> = (0..4).map(|n| format!("e{round}-{n}")).collect();
        publish(rig, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let deliveries = receive(consumer.as_ref(), 4).await;
        for delivery in &deliveries {
            assert!(tags.insert(delivery.tag), "the delivery tag {:?} is used twice", delivery.tag);
        }
        ack(consumer.as_ref(), &deliveries[..2]).await;
    }
}

/// An unsettled delivery is not delivered to another consumer as long as its own consumer exists.
pub async fn unsettled_deliveries_stay_with_their_consumer(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    let slow = subscribe(rig, QUEUE, 5).await;
    let unsettled = receive(slow.as_ref(), 1).await;
    let other = subscribe(rig, QUEUE, 5).await;
    stays_pending(rig, other.next()).await;
    rig.advance(Duration::from_secs(2)).await;
    stays_pending(rig, other.next()).await;
    ack(slow.as_ref(), &unsettled).await;
    stays_pending(rig, other.next()).await;
}
