//! Queue depths.

use std::time::Duration;

use chrono::TimeDelta;
use handover_outbox::ports::Requeue;

use super::super::{eventually, within};
use super::{
    BrokerRig, CONTROL, KEY, QUEUE, ack, dead_lettered, declare, declare_one, depth, publish, queue, receive,
    settles_at, subscribe, tags,
};

/// Every declared queue is listed, ordered by name.
pub async fn every_declared_queue_is_listed_by_name(rig: &dyn BrokerRig) {
    declare(rig, &[queue("b", &["b"]), queue("c", &[]), queue("a", &["b"])]).await;
    let names: Vec<_> = rig.broker().queues().await.unwrap().into_iter().map(|depth| depth.name).collect();
    assert_eq!(names, ["a", "b", "c", CONTROL]);
}

/// Before the first declaration, the broker lists no queues.
pub async fn no_queue_is_listed_before_a_declaration(rig: &dyn BrokerRig) {
    assert_eq!(rig.broker().queues().await.unwrap(), []);
}

/// A message is counted as ready, then as unsettled, then not at all.
pub async fn a_message_is_counted_by_its_state(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    settles_at(rig, QUEUE, 0, 0).await;
    publish(rig, &["a", "b", "c"]).await;
    settles_at(rig, QUEUE, 3, 0).await;
    let consumer = subscribe(rig, QUEUE, 2).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    settles_at(rig, QUEUE, 1, 2).await;
    ack(consumer.as_ref(), &unsettled[..1]).await;
    settles_at(rig, QUEUE, 1, 1).await;
    within("nack", consumer.nack(&tags(&unsettled[1..]), Requeue::Yes)).await.unwrap();
    settles_at(rig, QUEUE, 2, 0).await;
}

/// The time of the first ready message is shown. A requeued message keeps its time; a dead letter has that of its new queue.
pub async fn the_oldest_ready_message_has_the_time_at_which_it_entered_its_queue(rig: &dyn BrokerRig) {
    const STEP: Duration = Duration::from_millis(1);
    let step = TimeDelta::milliseconds(1);
    let oldest = async |queue: &str| depth(rig, queue).await.oldest_ready;
    declare(rig, &[dead_lettered(queue(QUEUE, &[KEY]), "dead"), queue("dead.queue", &["dead"])]).await;
    assert_eq!(oldest(QUEUE).await, None);
    publish(rig, &["a"]).await;
    settles_at(rig, QUEUE, 1, 0).await;
    let first = oldest(QUEUE).await;
    assert_eq!(first.is_some(), rig.capabilities().shows_oldest_ready);
    let Some(first) = first else { return };
    rig.advance(STEP).await;
    publish(rig, &["b"]).await;
    assert_eq!(oldest(QUEUE).await, Some(first));
    let consumer = subscribe(rig, QUEUE, 2).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    assert_eq!(oldest(QUEUE).await, None);
    rig.advance(STEP).await;
    within("nack", consumer.nack(&tags(&unsettled[..1]), Requeue::Yes)).await.unwrap();
    assert_eq!(oldest(QUEUE).await, Some(first));
    within("nack", consumer.nack(&tags(&unsettled[1..]), Requeue::No)).await.unwrap();
    assert_eq!(oldest("dead.queue").await, Some(first + step + step));
    // A queue without ready messages does not have the time of the next one.
    let unsettled = receive(consumer.as_ref(), 1).await;
    ack(consumer.as_ref(), &unsettled).await;
    assert_eq!(oldest(QUEUE).await, None);
    assert_eq!(oldest(CONTROL).await, None);
}

/// Active subscriptions are counted; closed and dropped ones are not.
pub async fn live_subscriptions_are_counted(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let consumers = async |count: u64| {
        eventually("the expected number of consumers", || async {
            (depth(rig, QUEUE).await.consumers == count).then_some(())
        })
        .await;
    };
    consumers(0).await;
    let one = subscribe(rig, QUEUE, 1).await;
    let two = subscribe(rig, QUEUE, 1).await;
    consumers(2).await;
    within("close", one.close()).await.unwrap();
    consumers(1).await;
    drop(two);
    consumers(0).await;
}

/// The load has the ready messages and the consumers of the requested queues, without missing ones. A number that exceeds
/// the limit may be counted as less, but not as less than the limit.
pub async fn the_load_of_queues_is_counted_up_to_a_limit(rig: &dyn BrokerRig) {
    declare(rig, &[queue("b", &[KEY]), queue("c", &["c"]), queue("a", &[KEY])]).await;
    let load = async |names: &[&str], up_to: u32| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut loads = within("load", rig.broker().load(&names, up_to)).await.expect("cannot count");
        loads.sort_by(|a, b| a.name.cmp(&b.name));
        loads.into_iter().map(|load| (load.name, load.ready, load.consumers)).collect::<Vec<_>>()
    };
    assert_eq!(load(&[], 9).await, []);
    let counted = |name: &str, ready: u64, consumers: u64| (name.to_owned(), ready, consumers);
    let eventually_counted = async |expected: &[(String, u64, u64)]| {
        eventually("the expected load", || async {
            (load(&["a", "missing", "c"], 9).await == expected).then_some(())
        })
        .await;
    };
    eventually_counted(&[counted("a", 0, 0), counted("c", 0, 0)]).await;
    publish(rig, &["1", "2", "3", "4", "5"]).await;
    eventually_counted(&[counted("a", 5, 0), counted("c", 0, 0)]).await;
    let [(_, ready, 0)] = load(&["a"], 3).await[..] else { panic!("one queue without consumers") };
    assert!((3..=5).contains(&ready), "{ready} of 5 messages are counted up to 3");
    let consumer = subscribe(rig, "a", 2).await;
    let unsettled = receive(consumer.as_ref(), 2).await;
    eventually_counted(&[counted("a", 3, 1), counted("c", 0, 0)]).await;
    ack(consumer.as_ref(), &unsettled).await;
    receive(consumer.as_ref(), 2).await;
    eventually_counted(&[counted("a", 1, 1), counted("c", 0, 0)]).await;
}

/// Ready and unsettled messages count, those of other queues do not. A missing queue has no messages.
pub async fn a_queue_has_messages_until_the_last_one_is_settled(rig: &dyn BrokerRig) {
    declare(rig, &[queue(QUEUE, &[KEY]), queue("other", &["other"])]).await;
    let has_messages = async |queue: &str| {
        within("has_messages", rig.broker().has_messages(queue)).await.expect("cannot look for messages")
    };
    let eventually_has = async |expected: bool| {
        eventually("the expected answer", || async { (has_messages(QUEUE).await == expected).then_some(()) })
            .await;
    };
    eventually_has(false).await;
    publish(rig, &["a"]).await;
    eventually_has(true).await;
    let consumer = subscribe(rig, QUEUE, 2).await;
    let unsettled = receive(consumer.as_ref(), 1).await;
    settles_at(rig, QUEUE, 0, 1).await;
    assert!(has_messages(QUEUE).await, "an unsettled message counts");
    assert!(!has_messages("other").await && !has_messages("missing").await);
    ack(consumer.as_ref(), &unsettled).await;
    eventually_has(false).await;
}
