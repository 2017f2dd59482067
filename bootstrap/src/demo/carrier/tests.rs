//! What befalls messages really does, at the port of the broker.

use handover_memory::MemoryBroker;

use handover_application::topology::FULFILLMENT_QUEUE;
use handover_system::SystemClock;

use super::*;

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

/// A broker with the queues of the marketplace, and what is between.
async fn between() -> (Mishaps, Arc<dyn Broker>) {
    let mishaps = Mishaps::default();
    let broker = carried(Arc::new(MemoryBroker::new(Arc::new(SystemClock))), mishaps.clone());
    broker.declare(&Topology::standard(std::time::Duration::from_secs(3))).await.unwrap();
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
    let happened = mishaps.happened();
    assert_eq!((happened.doubled, happened.repeats), (2, 2));
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
    assert_eq!((mishaps.happened().doubled, mishaps.happened().repeats), (1, 0));
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
