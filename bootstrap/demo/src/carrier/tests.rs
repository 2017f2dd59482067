//! What befalls messages really does, at the port of the broker.

use handover_memory::MemoryBroker;

use handover_system::SystemClock;
use marketplace::queues::{self, FULFILLMENT_QUEUE};

use super::super::mishaps::{Spoiled, Way};
use super::*;

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

/// A broker with the queues of the marketplace, and what is between.
async fn between() -> (Mishaps, Arc<dyn Broker>) {
    let mishaps = Mishaps::default();
    let broker = carried(Arc::new(MemoryBroker::new(Arc::new(SystemClock))), mishaps.clone());
    broker.declare(&queues::topology(std::time::Duration::from_secs(3))).await.unwrap();
    (mishaps, broker)
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

/// What became of the messages of an event at fulfillment.
fn way(mishaps: &Mishaps, number: usize) -> Way {
    let place = (FULFILLMENT_QUEUE.to_owned(), id(number).parse().unwrap());
    mishaps.happened().ways.get(&place).copied().unwrap_or_default()
}

/// Takes and acks so many deliveries; tells their message ids in order.
async fn taken(subscription: &dyn Subscription, count: usize) -> Vec<String> {
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
async fn every_tenth_delivery_comes_twice_as_a_message_more_in_its_queue_alone() {
    let (mishaps, broker) = between().await;
    broker.publish((1..=20).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let ids = taken(subscription.as_ref(), 22).await;
    assert_eq!(ids.len(), 22);
    assert_eq!([id(10), id(20)].map(|id| ids.iter().filter(|other| **other == id).count()), [2, 2]);
    assert_eq!([10, 20].map(|number| way(&mishaps, number)), [Way { whole: 2, copies: 1, acked: 2 }; 2]);
    assert_eq!(way(&mishaps, 11), Way { whole: 1, copies: 0, acked: 1 });
    let depths = broker.queues().await.unwrap();
    let ready = |name| depths.iter().find(|queue| queue.name == name).unwrap().ready;
    assert_eq!((ready(FULFILLMENT_QUEUE), ready("webhook.dispatch.queue")), (0, 20));
}

#[tokio::test]
async fn a_copy_that_is_not_acked_is_no_repeat() {
    let (mishaps, broker) = between().await;
    broker.publish((1..=10).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(subscription.next().await.unwrap().len(), 10);
    assert_eq!(subscription.next().await.unwrap().len(), 1);
    assert_eq!(way(&mishaps, 10), Way { whole: 2, copies: 1, acked: 0 });
}

#[tokio::test]
async fn the_spoiled_message_takes_the_place_of_the_good_one_at_one_queue() {
    let (mishaps, broker) = between().await;
    mishaps.spoil(2);
    broker.publish((1..=3).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let mut deliveries = subscription.next().await.unwrap();
    deliveries.extend(subscription.next().await.unwrap());
    let carried: Vec<(String, &str)> = deliveries
        .iter()
        .map(|delivery| (delivery.message.message_id.clone().unwrap(), delivery.message.body.as_str()))
        .collect();
    let good = "{\"of\":\"a payment\"}";
    assert_eq!(carried, [(id(1), good), (id(3), good), (id(2), "{\"of\":\"a ")]);
    let spoiled = Spoiled { queue: FULFILLMENT_QUEUE.to_owned(), event: id(2).parse().unwrap() };
    assert_eq!(mishaps.happened().spoiled, Some(spoiled));
    let other = broker.subscribe("webhook.dispatch.queue", PREFETCH).await.unwrap();
    assert!(other.next().await.unwrap().iter().all(|delivery| delivery.message.body == good));
}

#[tokio::test]
async fn a_cut_line_answers_nothing_ends_what_was_open_and_returns_what_was_held() {
    let (mishaps, broker) = between().await;
    broker.publish(vec![paid(1)]).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let held = subscription.next().await.unwrap();
    let (ended, ()) = tokio::join!(subscription.next(), async { mishaps.cut() });
    assert!(matches!(ended, Err(BrokerError::Closed { .. })), "{ended:?}");
    assert!(matches!(broker.publish(vec![paid(2)]).await, Err(BrokerError::Unreachable(_))));
    assert!(matches!(broker.queues().await, Err(BrokerError::Unreachable(_))));
    assert!(broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.is_err());
    mishaps.mend();
    assert!(subscription.ack(&[held[0].tag]).await.is_err(), "a connection that was lost stays lost");
    let again = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    let returned = again.next().await.unwrap();
    assert_eq!(returned.len(), 1, "what was not published is not there");
    assert!(returned[0].redelivered);
    let (from, until) = mishaps.happened().away.unwrap();
    assert!(from < until);
}

#[tokio::test]
async fn a_copy_is_never_the_message_that_is_spoiled() {
    let (mishaps, broker) = between().await;
    // The eleventh delivery is the copy of the tenth.
    mishaps.spoil(11);
    broker.publish((1..=10).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(taken(subscription.as_ref(), 11).await[9..], [id(10), id(10)]);
    assert_eq!(mishaps.happened().spoiled, None);
    broker.publish(vec![paid(11)]).await.unwrap();
    let carried = subscription.next().await.unwrap();
    assert_eq!(
        carried.iter().map(|delivery| delivery.message.body.as_str()).collect::<Vec<_>>(),
        ["{\"of\":\"a "]
    );
}

#[tokio::test]
async fn what_was_handed_out_before_is_not_spoiled_when_it_comes_again() {
    let (mishaps, broker) = between().await;
    mishaps.spoil(2);
    broker.publish(vec![paid(1)]).await.unwrap();
    let first = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(first.next().await.unwrap().len(), 1);
    first.close().await.unwrap();
    broker.publish(vec![paid(1), paid(2)]).await.unwrap();
    let again = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(taken(again.as_ref(), 3).await, [id(1), id(1), id(2)]);
    assert_eq!(mishaps.happened().spoiled.unwrap().event.as_str(), id(2));
}

#[tokio::test]
async fn a_spoiled_event_comes_to_its_queue_in_no_other_way_and_never_twice() {
    let (mishaps, broker) = between().await;
    mishaps.spoil(1);
    broker.publish((1..=9).map(paid).collect()).await.unwrap();
    let subscription = broker.subscribe(FULFILLMENT_QUEUE, PREFETCH).await.unwrap();
    // The spoiled one among them is delivered, and counts for nothing: eight others do.
    assert_eq!(taken(subscription.as_ref(), 9).await.iter().filter(|other| **other == id(1)).count(), 1);
    // Its confirm was lost: it is sent again. The next but one is the tenth that counts.
    broker.publish(vec![paid(1), paid(1), paid(10), paid(11)]).await.unwrap();
    assert_eq!(taken(subscription.as_ref(), 3).await, [id(10), id(11), id(11)]);
    assert_eq!(way(&mishaps, 1), Way { whole: 0, copies: 0, acked: 1 });
    assert_eq!(way(&mishaps, 11).copies, 1);
    let queue = broker.queues().await.unwrap().into_iter().find(|queue| queue.name == FULFILLMENT_QUEUE);
    assert_eq!(queue.map(|queue| (queue.ready, queue.unacked)), Some((0, 0)));
}
