//! Tests specific to the database broker. The contract suite covers the rules for every broker.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{
    Broker, BrokerError, Clock, Delivery, Message, Outgoing, PublishOutcome, Requeue, Subscription,
};
use handover_sql::{DatabaseBroker, SqlStore};
use marketplace::consumers::{self, INVENTORY_QUEUE, TIMEOUT_QUEUE};
use marketplace::queues::{DEAD_LETTER_QUEUE, timeout_delay_key};
use sqlx::Executor as _;
use tokio::sync::Notify;

use super::{Fixture, fixture};
use crate::PATIENCE;

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

async fn broker(fixture: &Fixture) -> DatabaseBroker {
    let broker = DatabaseBroker::new(&fixture.store);
    broker.declare(&consumers::topology(Duration::from_millis(300))).await.unwrap();
    broker
}

fn outgoing(id: &str, key: &str) -> Outgoing {
    Outgoing::new(id.parse().unwrap(), key.into(), message(id))
}

fn message(id: &str) -> Message {
    Message { message_id: Some(id.into()), body: "{}".into(), ..Message::default() }
}

async fn next(subscription: &dyn Subscription) -> Vec<Delivery> {
    tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap().unwrap()
}

fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().filter_map(|delivery| delivery.message.message_id.as_deref()).collect()
}

#[tokio::test]
async fn message_is_published_claimed_requeued_acked_and_dead_lettered() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let window =
        vec![outgoing("a", "order.created"), outgoing("b", "nowhere"), outgoing("c", "order.created")];
    let outcomes = broker.publish(window).await.unwrap();
    assert!(matches!(outcomes[0], PublishOutcome::Confirmed(_)));
    assert!(matches!(outcomes[1], PublishOutcome::Returned { .. }));
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let deliveries = next(subscription.as_ref()).await;
    assert_eq!(ids(&deliveries), ["a", "c"]);
    subscription.nack(&[deliveries[0].tag], Requeue::Yes).await.unwrap();
    subscription.nack(&[deliveries[1].tag], Requeue::No).await.unwrap();
    let again = next(subscription.as_ref()).await;
    assert_eq!((ids(&again), again[0].redelivered), (vec!["a"], true));
    subscription.ack(&[again[0].tag]).await.unwrap();
    let dead = broker.subscribe(DEAD_LETTER_QUEUE, PREFETCH).await.unwrap();
    let dead_letters = next(dead.as_ref()).await;
    assert_eq!((ids(&dead_letters), dead_letters[0].died_in.as_deref()), (vec!["c"], Some(INVENTORY_QUEUE)));
    drop(dead);
    let dead = broker.subscribe(DEAD_LETTER_QUEUE, PREFETCH).await.unwrap();
    assert!(next(dead.as_ref()).await[0].redelivered);
    let depths = broker.queues().await.unwrap();
    let depth = depths.iter().find(|depth| depth.name == DEAD_LETTER_QUEUE).unwrap();
    assert_eq!((depth.ready, depth.unacked, depth.consumers), (0, 1, 1));
}

/// Long messages are inserted by several statements.
#[tokio::test]
async fn window_of_long_messages_is_stored_as_a_whole_or_not_at_all() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let mut direct = fixture.direct_connection().await;
    let refusal = "CREATE TRIGGER refusal BEFORE INSERT ON outbox_broker_messages WHEN NEW.message_id = 'm8' \
                   BEGIN SELECT RAISE(ABORT, 'refused'); END";
    direct.execute(refusal).await.unwrap();
    let long = |id: String| {
        let message = Message { body: "x".repeat(100_000), ..message(&id) };
        Outgoing::to_queue(id.parse().unwrap(), INVENTORY_QUEUE.to_owned(), message)
    };
    let window = || (1..=8).map(|n| long(format!("m{n}"))).collect();
    broker.publish(window()).await.unwrap_err();
    assert!(!broker.has_messages(INVENTORY_QUEUE).await.unwrap());
    direct.execute("DROP TRIGGER refusal").await.unwrap();
    broker.publish(window()).await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(ids(&next(subscription.as_ref()).await), ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"]);
}

/// Expired messages of any queue are moved by whoever receives next.
#[tokio::test]
async fn message_with_damaged_headers_is_delivered_and_stops_no_other_queue() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let delay = timeout_delay_key(Duration::from_millis(300));
    broker.publish(vec![outgoing("a", "order.created"), outgoing("late", &delay)]).await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("UPDATE outbox_broker_messages SET headers = '{'").await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(ids(&next(subscription.as_ref()).await), ["a"]);
    let late = broker.subscribe(TIMEOUT_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(ids(&next(late.as_ref()).await), ["late"]);
}

/// A clock whose sleeps never end. It notifies the test when a sleep begins.
#[derive(Default)]
struct EndlessSleepClock(Notify);

#[async_trait]
impl Clock for EndlessSleepClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    async fn sleep(&self, _duration: Duration) {
        self.0.notify_one();
        std::future::pending().await
    }
}

/// Messages that expire all the time must not keep a consumer from its own.
#[tokio::test]
async fn receiving_consumer_moves_one_batch_of_expired_messages() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let delay = timeout_delay_key(Duration::from_millis(300));
    broker.publish((0..600).map(|n| outgoing(&format!("m{n}"), &delay)).collect()).await.unwrap();
    broker.publish(vec![outgoing("a", "order.created")]).await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct
        .execute("UPDATE outbox_broker_messages SET expires_at = enqueued_at WHERE expires_at IS NOT NULL")
        .await
        .unwrap();
    let moved = async || {
        let depths = broker.queues().await.unwrap();
        depths.iter().find(|depth| depth.name == TIMEOUT_QUEUE).unwrap().ready
    };
    // Subscribing reads when the next message expires, and moves the first batch.
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(moved().await, 200);
    assert_eq!(ids(&next(subscription.as_ref()).await), ["a"]);
    assert_eq!(moved().await, 400);
    let late = broker.subscribe(TIMEOUT_QUEUE, 1_000.try_into().unwrap()).await.unwrap();
    assert_eq!(next(late.as_ref()).await.len(), 600);
}

#[tokio::test]
async fn publish_wakes_waiting_consumer_without_poll() {
    let fixture = fixture().await;
    let clock = Arc::new(EndlessSleepClock::default());
    let store =
        SqlStore::open_sqlite(&fixture.options(), clock.clone(), WakeupNotifier::default()).await.unwrap();
    let broker = DatabaseBroker::new(&store);
    broker.declare(&consumers::topology(Duration::from_millis(300))).await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let direct =
        Outgoing::to_queue("addressed".parse().unwrap(), INVENTORY_QUEUE.into(), message("addressed"));
    for message in [outgoing("routed", "order.created"), direct] {
        let id = message.event_id().to_string();
        let publish = async {
            clock.0.notified().await;
            broker.publish(vec![message]).await.unwrap();
        };
        let (deliveries, ()) = futures_util::join!(next(subscription.as_ref()), publish);
        assert_eq!(ids(&deliveries), [id]);
        subscription.ack(&[deliveries[0].tag]).await.unwrap();
    }
}

#[tokio::test]
async fn waiting_consumer_moves_expired_message() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let subscription = broker.subscribe(TIMEOUT_QUEUE, PREFETCH).await.unwrap();
    let publish =
        async { broker.publish(vec![outgoing("late", "order.timeout.delay.300ms")]).await.unwrap() };
    let (deliveries, _) = tokio::join!(next(subscription.as_ref()), publish);
    assert_eq!(ids(&deliveries), ["late"]);
}

#[tokio::test]
async fn deliveries_are_returned_when_heartbeat_of_process_expires() {
    let fixture = fixture().await;
    let suspended = broker(&fixture).await;
    suspended.publish(vec![outgoing("a", "order.created")]).await.unwrap();
    let expired = suspended.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    assert_eq!(next(expired.as_ref()).await.len(), 1);
    fixture.store.move_database_clock(chrono::Duration::seconds(16));
    let other = DatabaseBroker::new(&fixture.store);
    let subscription = other.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let deliveries = next(subscription.as_ref()).await;
    assert!(deliveries[0].redelivered);
    // The first process resumes: its session has ended, so it cannot ack.
    let acked = expired.ack(&[deliveries[0].tag]).await;
    assert!(matches!(acked, Err(BrokerError::Closed { .. })), "{acked:?}");
    assert!(matches!(expired.next().await, Err(BrokerError::Closed { .. })));
}

#[tokio::test]
async fn change_of_database_clock_ends_no_session_of_running_process() {
    let fixture = fixture().await;
    let running = broker(&fixture).await;
    running.publish(vec![outgoing("a", "order.created")]).await.unwrap();
    let subscription = running.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let deliveries = next(subscription.as_ref()).await;
    let other = DatabaseBroker::new(&fixture.store);
    for minutes in [5, -5] {
        // Each new subscription checks the sessions of all processes: one before and one after the clock is changed.
        for step in [chrono::Duration::zero(), chrono::Duration::minutes(minutes)] {
            fixture.store.move_database_clock(step);
            drop(other.subscribe(TIMEOUT_QUEUE, PREFETCH).await.unwrap());
        }
    }
    subscription.ack(&[deliveries[0].tag]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_next_loses_no_message() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    for round in 0..100u64 {
        let id = format!("e{round}");
        broker.publish(vec![outgoing(&id, "order.created")]).await.unwrap();
        let dropped = tokio::time::timeout(Duration::from_micros(round * 10), subscription.next()).await;
        let deliveries = match dropped {
            Ok(deliveries) => deliveries.unwrap(),
            Err(_) => next(subscription.as_ref()).await,
        };
        assert_eq!(ids(&deliveries), [id.as_str()]);
        subscription.ack(&[deliveries[0].tag]).await.unwrap();
    }
}

/// A message that becomes ready below the mark, as one whose transaction committed after those of greater ids, is claimed by
/// the next search of the whole queue.
#[tokio::test]
async fn message_below_the_low_water_mark_is_claimed_by_a_later_search() {
    let fixture = fixture().await;
    drop(broker(&fixture).await);
    let broker = DatabaseBroker::with_slow_search(&fixture.store, Duration::ZERO);
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let mut direct = fixture.direct_connection().await;
    // The first search of the whole queue finds the first message, the next one, a second later, sets the mark to its id.
    for (id, number) in [("first", 1_000), ("second", 2_000), ("late", 10)] {
        let new = Outgoing::to_queue(id.parse().unwrap(), INVENTORY_QUEUE.into(), message(id));
        broker.publish(vec![new]).await.unwrap();
        let sql = format!("UPDATE outbox_broker_messages SET id = {number} WHERE message_id = '{id}'");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut direct).await.unwrap();
        let deliveries = next(subscription.as_ref()).await;
        assert_eq!(ids(&deliveries), [id]);
        subscription.ack(&[deliveries[0].tag]).await.unwrap();
        if id == "first" {
            let none = tokio::time::timeout(Duration::from_millis(1_100), subscription.next()).await;
            assert!(none.is_err(), "{none:?}");
        }
    }
}

#[tokio::test]
async fn dropped_subscribe_leaves_no_session() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let mut polls = 1;
    let mut dropped = 0;
    // How many polls a subscription takes depends on the speed of the database's thread.
    while dropped < 8 {
        let mut subscribing = broker.subscribe(INVENTORY_QUEUE, PREFETCH);
        let mut count = 0;
        // Dropped at this poll, if it is still pending.
        let subscribed = std::future::poll_fn(|context| {
            count += 1;
            match subscribing.as_mut().poll(context) {
                Poll::Ready(subscribed) => Poll::Ready(Some(subscribed)),
                Poll::Pending if count == polls => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        drop(subscribing);
        let is_complete = subscribed.is_some();
        // The writer takes part in one transaction at a time: after this call, no session of the dropped one is added.
        broker.subscribe(TIMEOUT_QUEUE, PREFETCH).await.unwrap().close().await.unwrap();
        drop(subscribed);
        let left = async {
            while broker.queues().await.unwrap().iter().any(|depth| depth.consumers > 0) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, left).await.unwrap_or_else(|_| panic!("session left, {polls} polls"));
        if is_complete {
            polls = 1;
        } else {
            dropped += 1;
            polls += 1;
        }
    }
}

#[tokio::test]
async fn declare_of_queue_with_different_ttl_fails_with_old_and_new_ttl() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let mut topology = consumers::topology(Duration::from_millis(300));
    for queue in &mut topology.queues {
        queue.ttl = queue.ttl.map(|_| Duration::from_millis(400));
    }
    let Err(BrokerError::Refused { what }) = broker.declare(&topology).await else { panic!("declared") };
    assert!(
        what.contains("order.timeout.delay.queue.300ms")
            && what.contains("300 ms")
            && what.contains("400 ms"),
        "{what}"
    );
}

/// No other outbox publishes to the tables of this database.
#[tokio::test]
async fn declare_of_queue_that_receives_from_another_outbox_is_refused() {
    let fixture = fixture().await;
    let broker = broker(&fixture).await;
    let topology = consumers::topology(Duration::from_millis(300)).receiving(TIMEOUT_QUEUE, "branch.events");
    let Err(BrokerError::Refused { what }) = broker.declare(&topology).await else { panic!("declared") };
    assert_eq!(
        what,
        format!(
            "queue {TIMEOUT_QUEUE} receives from the exchange branch.events of another outbox, and the tables of a database are the \
             broker of its own outbox only; use RabbitMQ"
        )
    );
}
