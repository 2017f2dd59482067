//! Tests specific to the broker in memory. The contract suite covers the rules for every broker.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use handover_outbox::ports::{
    Broker, BrokerError, Clock, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, Requeue,
    Subscription,
};
use handover_outbox::topology::{QueueSpec, Topology};
use marketplace::consumers::{self, FULFILLMENT_QUEUE, INVENTORY_QUEUE, TIMEOUT_QUEUE, WEBHOOK_QUEUE};
use marketplace::queues::{DEAD_LETTER_QUEUE, TIMEOUT_DELAY_QUEUE};

use handover_memory::{ManualClock, MemoryBroker, VirtualClock};

const DELAY: Duration = Duration::from_secs(900);

fn standard() -> Topology {
    consumers::topology(DELAY)
}

async fn declared(clock: Arc<dyn Clock>) -> MemoryBroker {
    let broker = MemoryBroker::new(clock);
    broker.declare(&standard()).await.unwrap();
    broker
}

async fn broker() -> MemoryBroker {
    declared(Arc::new(VirtualClock::new(DateTime::UNIX_EPOCH))).await
}

fn outgoing(id: &str, key: &str) -> Outgoing {
    let message = Message { message_id: Some(id.to_owned()), ..Message::default() };
    Outgoing::new(id.parse().unwrap(), key.to_owned(), message)
}

async fn publish(broker: &MemoryBroker, messages: &[(&str, &str)]) -> Vec<PublishOutcome> {
    broker.publish(messages.iter().map(|(id, key)| outgoing(id, key)).collect()).await.unwrap()
}

async fn subscribe(broker: &MemoryBroker, queue: &str, prefetch: u16) -> Box<dyn Subscription> {
    broker.subscribe(queue, NonZeroU16::new(prefetch).unwrap()).await.unwrap()
}

async fn ready(broker: &MemoryBroker, queue: &str) -> u64 {
    broker.queues().await.unwrap().iter().find(|depth| depth.name == queue).unwrap().ready
}

fn ids(deliveries: &[Delivery]) -> Vec<(&str, bool)> {
    deliveries.iter().map(|it| (it.message.message_id.as_deref().unwrap(), it.redelivered)).collect()
}

fn tags(deliveries: &[Delivery]) -> Vec<DeliveryTag> {
    deliveries.iter().map(|delivery| delivery.tag).collect()
}

#[tokio::test(start_paused = true)]
async fn publish_confirms_routable_and_returns_unroutable_messages() {
    let broker = broker().await;
    broker.rebind(INVENTORY_QUEUE, "order.#");
    let outcomes =
        publish(&broker, &[("a", "order.created"), ("b", "no.binding"), ("c", "order.created")]).await;
    assert!(matches!(
        outcomes[..],
        [PublishOutcome::Confirmed(_), PublishOutcome::Returned { .. }, PublishOutcome::Confirmed(_)]
    ));
    assert_eq!((ready(&broker, INVENTORY_QUEUE).await, ready(&broker, WEBHOOK_QUEUE).await), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn delayed_message_reaches_waiting_consumer_when_ttl_expires() {
    let broker = broker().await;
    let subscription = subscribe(&broker, TIMEOUT_QUEUE, 20).await;
    let started = tokio::time::Instant::now();
    let publishes = async {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        publish(&broker, &[("a", "order.timeout.delay")]).await;
        assert_eq!(ready(&broker, TIMEOUT_DELAY_QUEUE).await, 1);
    };
    let (deliveries, ()) = tokio::join!(subscription.next(), publishes);
    let deliveries = deliveries.unwrap();
    assert_eq!(ids(&deliveries), [("a", false)]);
    assert_eq!(
        deliveries[0].died_in, None,
        "`died_in` must be empty, because no consumer rejected the message"
    );
    assert_eq!(started.elapsed(), DELAY);
}

#[tokio::test]
async fn message_expires_only_at_head_of_queue() {
    let clock = ManualClock::new(DateTime::UNIX_EPOCH + DELAY);
    let broker = declared(Arc::new(clock.clone())).await;
    publish(&broker, &[("a", "order.timeout.delay")]).await;
    clock.set(DateTime::UNIX_EPOCH);
    publish(&broker, &[("b", "order.timeout.delay")]).await;
    clock.advance(DELAY);
    assert_eq!((ready(&broker, TIMEOUT_DELAY_QUEUE).await, ready(&broker, TIMEOUT_QUEUE).await), (2, 0));
    clock.advance(DELAY);
    assert_eq!((ready(&broker, TIMEOUT_DELAY_QUEUE).await, ready(&broker, TIMEOUT_QUEUE).await), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn closed_or_dropped_subscription_returns_deliveries_in_order_as_redelivered() {
    let broker = broker().await;
    publish(&broker, &[("a", "order.paid"), ("b", "order.paid"), ("c", "order.paid")]).await;
    for drops in [true, false] {
        let subscription = subscribe(&broker, FULFILLMENT_QUEUE, 2).await;
        let deliveries = subscription.next().await.unwrap();
        assert_eq!(ids(&deliveries), [("a", !drops), ("b", !drops)]);
        if drops {
            drop(subscription);
        } else {
            subscription.close().await.unwrap();
            assert!(matches!(subscription.next().await, Err(BrokerError::Closed { .. })));
            assert!(matches!(subscription.ack(&tags(&deliveries)).await, Err(BrokerError::Closed { .. })));
        }
    }
    let subscription = subscribe(&broker, FULFILLMENT_QUEUE, 9).await;
    assert_eq!(ids(&subscription.next().await.unwrap()), [("a", true), ("b", true), ("c", false)]);
}

#[tokio::test(start_paused = true)]
async fn next_waits_for_settlement_when_prefetch_is_exhausted() {
    let broker = broker().await;
    publish(&broker, &[("a", "order.paid"), ("b", "order.paid")]).await;
    let subscription = subscribe(&broker, FULFILLMENT_QUEUE, 1).await;
    let first = subscription.next().await.unwrap();
    let (second, acked) = tokio::join!(subscription.next(), async {
        tokio::task::yield_now().await;
        subscription.ack(&tags(&first)).await
    });
    acked.unwrap();
    assert_eq!((ids(&first), ids(&second.unwrap())), (vec![("a", false)], vec![("b", false)]));
}

#[tokio::test(start_paused = true)]
async fn rejected_message_is_dead_lettered_and_dropped_when_rejected_again() {
    let broker = broker().await;
    publish(&broker, &[("a", "order.paid")]).await;
    let business = subscribe(&broker, FULFILLMENT_QUEUE, 1).await;
    business.nack(&tags(&business.next().await.unwrap()), Requeue::No).await.unwrap();
    let dead = subscribe(&broker, DEAD_LETTER_QUEUE, 1).await;
    let dead_letters = dead.next().await.unwrap();
    assert_eq!(ids(&dead_letters), [("a", false)]);
    assert_eq!(dead_letters[0].died_in.as_deref(), Some(FULFILLMENT_QUEUE));
    dead.nack(&tags(&dead_letters), Requeue::No).await.unwrap();
    assert!(
        broker
            .queues()
            .await
            .unwrap()
            .iter()
            .filter(|depth| [FULFILLMENT_QUEUE, DEAD_LETTER_QUEUE].contains(&depth.name.as_str()))
            .all(|depth| depth.unacked == 0 && depth.ready == 0)
    );
}

#[tokio::test(start_paused = true)]
async fn declare_with_different_arguments_fails_with_old_and_new_values_and_changes_nothing() {
    let broker = broker().await;
    let mut other = standard();
    other.queues.insert(
        0,
        QueueSpec {
            name: "new".to_owned(),
            bindings: vec!["new".to_owned()],
            ttl: None,
            dead_letter_key: None,
            is_selective: false,
            receives_from: None,
        },
    );
    for queue in other.queues.iter_mut().filter(|queue| queue.name == TIMEOUT_DELAY_QUEUE) {
        queue.ttl = Some(Duration::from_secs(1));
    }
    let Err(BrokerError::Refused { what }) = broker.declare(&other).await else { unreachable!() };
    for part in [TIMEOUT_DELAY_QUEUE, "x-message-ttl", "900000", "1000", "delete the queue"] {
        assert!(what.contains(part), "{part} in {what}");
    }
    assert_eq!(broker.queues().await.unwrap().len(), standard().queues.len());
    broker.declare(&standard()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn next_and_publish_fail_as_unreachable_in_outage_and_no_message_is_lost() {
    let broker = broker().await;
    publish(&broker, &[("a", "order.paid")]).await;
    let before = subscribe(&broker, FULFILLMENT_QUEUE, 1).await;
    before.next().await.unwrap();
    let (waited, ()) = tokio::join!(before.next(), async {
        tokio::task::yield_now().await;
        broker.set_reachable(false);
    });
    assert!(matches!(waited, Err(BrokerError::Unreachable(_))));
    assert!(matches!(broker.publish(Vec::new()).await, Err(BrokerError::Unreachable(_))));
    broker.set_reachable(true);
    assert!(matches!(before.next().await, Err(BrokerError::Closed { .. })));
    let after = subscribe(&broker, FULFILLMENT_QUEUE, 1).await;
    assert_eq!(ids(&after.next().await.unwrap()), [("a", true)]);
}

#[tokio::test(start_paused = true)]
async fn blocked_broker_refuses_publishes_and_continues_to_deliver() {
    let broker = broker().await;
    publish(&broker, &[("a", "order.paid")]).await;
    broker.set_blocked(Some("low on disk"));
    assert_eq!(broker.blocked().await.as_deref(), Some("low on disk"));
    assert!(matches!(broker.publish(Vec::new()).await, Err(BrokerError::Unreachable(_))));
    let consumer = subscribe(&broker, FULFILLMENT_QUEUE, 1).await;
    let delivered = consumer.next().await.unwrap();
    consumer.ack(&[delivered[0].tag]).await.unwrap();
    assert_eq!(ready(&broker, FULFILLMENT_QUEUE).await, 0);
    broker.set_blocked(None);
    assert_eq!(broker.blocked().await, None);
    publish(&broker, &[("b", "order.paid")]).await;
    assert_eq!(ids(&consumer.next().await.unwrap()), [("b", false)]);
}

#[tokio::test(start_paused = true)]
async fn queue_that_dead_letters_to_itself_drops_expired_messages() {
    let broker = broker().await;
    let queue = QueueSpec {
        name: "circle".to_owned(),
        bindings: vec!["circle".to_owned()],
        ttl: Some(Duration::from_secs(1)),
        dead_letter_key: Some("circle".to_owned()),
        is_selective: false,
        receives_from: None,
    };
    broker.declare(&Topology { queues: vec![queue], ..standard() }).await.unwrap();
    publish(&broker, &[("a", "circle")]).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ready(&broker, "circle").await, 0);
}

#[tokio::test]
async fn manual_clock_wakes_sleepers_when_advanced_but_not_when_set() {
    let clock = ManualClock::new(DateTime::UNIX_EPOCH);
    let (slept, ()) = tokio::join!(
        async {
            clock.sleep(Duration::from_secs(2)).await;
            clock.now()
        },
        async {
            clock.set(DateTime::UNIX_EPOCH + Duration::from_secs(60));
            clock.advance(Duration::from_secs(1));
            assert_eq!(clock.pending_sleeps(), 1);
            clock.advance(Duration::from_secs(1));
        }
    );
    assert_eq!(slept, DateTime::UNIX_EPOCH + Duration::from_secs(62));
}
