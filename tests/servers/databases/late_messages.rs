//! Messages of the database broker that become ready below the mark at which claims begin, or whose claim is committed after its call
//! was dropped.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use handover_contract::samples::{event_id, message};
use handover_contract::within;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Broker, Outgoing};
use handover_sql::DatabaseBroker;
use handover_system::SystemClock;
use handover_tests::server_rigs::open;
use handover_tests::servers::database::ServerKind;
use marketplace::consumers::{self, INVENTORY_QUEUE};

use super::{Fixture, on_every_server};

on_every_server!(message_below_the_mark_is_claimed_after_a_full_search);

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();
/// Longer than the window after which the mark follows the messages.
const WINDOW: Duration = Duration::from_millis(1_100);

async fn message_below_the_mark_is_claimed_after_a_full_search(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let store = open(&fixture.database.url(), Arc::new(SystemClock), &WakeupNotifier::default());
    // Every search counts as slow.
    let broker = DatabaseBroker::with_slow_search(&store, Duration::ZERO);
    broker.declare(&consumers::topology(Duration::from_secs(900))).await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    for (id, number) in [("first", 1_000), ("second", 2_000), ("late", 10)] {
        let new = Outgoing::to_queue(event_id(id), INVENTORY_QUEUE.into(), message(id));
        broker.publish(vec![new]).await.unwrap();
        let sql = format!("UPDATE outbox_broker_messages SET id = {number} WHERE message_id = '{id}'");
        fixture.outside(&sql).await.unwrap();
        let deliveries = within("the message is delivered", subscription.next()).await.unwrap();
        let ids: Vec<_> = deliveries.iter().map(|it| it.message.message_id.as_deref()).collect();
        assert_eq!(ids, [Some(id)]);
        subscription.ack(&[deliveries[0].tag]).await.unwrap();
        if id == "first" {
            let none = tokio::time::timeout(WINDOW, subscription.next()).await;
            assert!(none.is_err(), "{none:?}");
        }
    }
}

#[test]
fn messages_of_a_dropped_claim_are_delivered_when_its_commit_has_ended() {
    handover_contract::run(drop_claim_during_its_commit());
}

/// The server needs a second for the commit.
async fn drop_claim_during_its_commit() {
    let fixture = Fixture::new(ServerKind::Postgres).await;
    let store = open(&fixture.database.url(), Arc::new(SystemClock), &WakeupNotifier::default());
    let broker = DatabaseBroker::new(&store);
    broker.declare(&consumers::topology(Duration::from_secs(900))).await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    for sql in [
        "CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON outbox_broker_messages DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION slow_commit()",
    ] {
        fixture.outside(sql).await.unwrap();
    }
    let new = Outgoing::to_queue(event_id("a"), INVENTORY_QUEUE.into(), message("a"));
    broker.publish(vec![new]).await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(500), subscription.next()).await;
    assert!(dropped.is_err(), "{dropped:?}");
    let deliveries = within("the message is delivered", subscription.next()).await.unwrap();
    assert_eq!(deliveries.len(), 1);
}
