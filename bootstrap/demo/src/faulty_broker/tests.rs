//! Checks that the injected faults are visible at the broker port.

use handover_memory::MemoryBroker;

use handover_system::SystemClock;
use marketplace::consumers::{self, FULFILLMENT_QUEUE};

use super::super::broker_faults::{CorruptedMessage, MessageCounts};
use super::*;

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

/// A memory broker with the marketplace's queues, wrapped with faults.
async fn faulty_broker() -> (BrokerFaults, Arc<dyn Broker>) {
    let faults = BrokerFaults::default();
    let broker = with_faults(Arc::new(MemoryBroker::new(Arc::new(SystemClock))), faults.clone());
    broker.declare(&consumers::topology(std::time::Duration::from_secs(3))).await.unwrap();
    (faults, broker)
}

fn paid(number: usize) -> Outgoing {
    let message = Message {
        message_id: Some(id(number)),
        body: "{\"of\":\"a payment\"}".to_owned(),
        ..Message::default()
    };
    Outgoing::new(id(number).parse().unwrap(), "order.paid".to_owned(), message)
}

fn id(number: usize) -> String {
    format!("event-{number:03}")
}

/// Counts of the messages of an event in the queue of the consumer `fulfillment`.
fn counts(faults: &BrokerFaults, number: usize) -> MessageCounts {
    let key = (FULFILLMENT_QUEUE.to_owned(), id(number).parse().unwrap());
    faults.injected().message_counts.get(&key).copied().unwrap_or_default()
}

/// Receives and acknowledges `count` deliveries; returns their message ids, sorted.
async fn receive_and_ack(subscription: &dyn Subscription, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let deliveries = subscription.next().await.unwrap();
        let tags: Vec<DeliveryTag> = deliveries.iter().map(|delivery| delivery.tag).collect();
        ids.extend(deliveries.into_iter().filter_map(|delivery| delivery.message.message_id));
        subscription.ack(&tags).await.unwrap();
    }
    ids.sort();
    ids
}

#[tokio::test]
async fn every_tenth_delivery_is_duplicated_in_its_queue_only() {
    let (faults, broker) = faulty_broker().await;
    broker.publish((1..=20).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let ids = receive_and_ack(subscription.as_ref(), 22).await;
    assert_eq!(ids.len(), 22);
    assert_eq!([id(10), id(20)].map(|id| ids.iter().filter(|other| **other == id).count()), [2, 2]);
    assert_eq!(
        [10, 20].map(|number| counts(&faults, number)),
        [MessageCounts { intact: 2, copies: 1, acked: 2 }; 2]
    );
    assert_eq!(counts(&faults, 11), MessageCounts { intact: 1, copies: 0, acked: 1 });
    let depths = broker.queues().await.unwrap();
    let ready = |name| depths.iter().find(|queue| queue.name == name).unwrap().ready;
    assert_eq!((ready(FULFILLMENT_QUEUE), ready("webhook.dispatch.queue")), (0, 20));
}

#[tokio::test]
async fn unacknowledged_copy_is_not_counted_as_acknowledged() {
    let (faults, broker) = faulty_broker().await;
    broker.publish((1..=10).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(subscription.next().await.unwrap().len(), 10);
    assert_eq!(subscription.next().await.unwrap().len(), 1);
    assert_eq!(counts(&faults, 10), MessageCounts { intact: 2, copies: 1, acked: 0 });
}

#[tokio::test]
async fn corrupted_message_replaces_the_original_in_one_queue() {
    let (faults, broker) = faulty_broker().await;
    faults.corrupt_nth_payment(2);
    broker.publish((1..=3).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let mut deliveries = subscription.next().await.unwrap();
    deliveries.extend(subscription.next().await.unwrap());
    let delivered: Vec<(String, &str)> = deliveries
        .iter()
        .map(|delivery| (delivery.message.message_id.clone().unwrap(), delivery.message.body.as_str()))
        .collect();
    let good = "{\"of\":\"a payment\"}";
    assert_eq!(delivered, [(id(1), good), (id(3), good), (id(2), "{\"of\":\"a ")]);
    let corrupted = CorruptedMessage { queue: FULFILLMENT_QUEUE.to_owned(), event: id(2).parse().unwrap() };
    assert_eq!(faults.injected().corrupted, Some(corrupted));
    let other = broker.subscribe("webhook.dispatch.queue", PREFETCH).await.unwrap();
    assert!(other.next().await.unwrap().iter().all(|delivery| delivery.message.body == good));
}

#[tokio::test]
async fn outage_fails_calls_ends_subscriptions_and_requeues_unsettled_deliveries() {
    let (faults, broker) = faulty_broker().await;
    broker.publish(vec![paid(1)]).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let unsettled = subscription.next().await.unwrap();
    let (ended, ()) = tokio::join!(subscription.next(), async { faults.begin_outage() });
    assert!(matches!(ended, Err(BrokerError::Closed { .. })), "{ended:?}");
    assert!(matches!(broker.publish(vec![paid(2)]).await, Err(BrokerError::Unreachable(_))));
    assert!(matches!(broker.queues().await, Err(BrokerError::Unreachable(_))));
    assert!(broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.is_err());
    faults.end_outage();
    assert!(subscription.ack(&[unsettled[0].tag]).await.is_err(), "a lost connection stays lost");
    let again = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let returned = again.next().await.unwrap();
    assert_eq!(
        returned.len(),
        1,
        "only the unsettled message; the queue must not contain the message published during the outage"
    );
    assert!(returned[0].redelivered);
    let (from, until) = faults.injected().outage.unwrap();
    assert!(from < until);
}

#[tokio::test]
async fn copy_is_never_corrupted() {
    let (faults, broker) = faulty_broker().await;
    // The eleventh delivery is the copy of the tenth message.
    faults.corrupt_nth_payment(11);
    broker.publish((1..=10).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(receive_and_ack(subscription.as_ref(), 11).await[9..], [id(10), id(10)]);
    assert_eq!(faults.injected().corrupted, None);
    broker.publish(vec![paid(11)]).await.unwrap();
    let delivered = subscription.next().await.unwrap();
    assert_eq!(
        delivered.iter().map(|delivery| delivery.message.body.as_str()).collect::<Vec<_>>(),
        ["{\"of\":\"a "]
    );
}

#[tokio::test]
async fn redelivered_message_is_not_corrupted() {
    let (faults, broker) = faulty_broker().await;
    faults.corrupt_nth_payment(2);
    broker.publish(vec![paid(1)]).await.unwrap();
    let first = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(first.next().await.unwrap().len(), 1);
    first.close().await.unwrap();
    broker.publish(vec![paid(1), paid(2)]).await.unwrap();
    let again = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(receive_and_ack(again.as_ref(), 3).await, [id(1), id(1), id(2)]);
    assert_eq!(faults.injected().corrupted.unwrap().event.as_str(), id(2));
}

#[tokio::test]
async fn event_of_corrupted_message_is_delivered_only_once() {
    let (faults, broker) = faulty_broker().await;
    faults.corrupt_nth_payment(1);
    broker.publish((1..=9).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    // Nine messages are delivered. The corrupted one does not count towards the next duplicate; the eight others do.
    assert_eq!(
        receive_and_ack(subscription.as_ref(), 9).await.iter().filter(|other| **other == id(1)).count(),
        1
    );
    // Event 1 is published again, as after a lost confirm. Event 11 is the tenth counted delivery.
    broker.publish(vec![paid(1), paid(1), paid(10), paid(11)]).await.unwrap();
    assert_eq!(receive_and_ack(subscription.as_ref(), 3).await, [id(10), id(11), id(11)]);
    assert_eq!(counts(&faults, 1), MessageCounts { intact: 0, copies: 0, acked: 1 });
    assert_eq!(counts(&faults, 11).copies, 1);
    let queue = broker.queues().await.unwrap().into_iter().find(|queue| queue.name == FULFILLMENT_QUEUE);
    assert_eq!(queue.map(|queue| (queue.ready, queue.unacked)), Some((0, 0)));
}
