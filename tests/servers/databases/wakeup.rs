//! Wake-up notifications between processes: two stores on one database, like those of two processes. Their clocks do
//! not advance, so that no store polls.

use std::num::NonZeroU16;
use std::time::Duration;

use handover_contract::samples::{event, outgoing, partition};
use handover_contract::within;
use handover_outbox::ports::Broker;
use handover_sql::DatabaseBroker;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::proxy::Proxy;
use marketplace::consumers::{self, INVENTORY_QUEUE};

use super::{Fixture, append, on_every_server};

on_every_server!(
    commit_notifies_relay_of_another_process,
    publish_notifies_consumer_of_another_process,
    closing_store_sends_pending_notifications,
    connection_that_the_network_has_dropped_silently_is_replaced,
);

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

async fn commit_notifies_relay_of_another_process(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let there = here.open_as_other_process();
    let watchers = [here.store.clone(), there.store.clone()]
        .map(|store| tokio::spawn(async move { store.watch().await }));
    for n in 1..=5 {
        append(&here.store, &[event(&format!("e{n}"), n, 1)]).await.unwrap();
        let wanted = partition(n);
        within("the relay of another process is notified", async {
            while !there.wake.notified().await.contains(wanted) {}
        })
        .await;
    }
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn publish_notifies_consumer_of_another_process(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let there = here.open_as_other_process();
    let watchers = [here.store.clone(), there.store.clone()]
        .map(|store| tokio::spawn(async move { store.watch().await }));
    let publisher = DatabaseBroker::new(&here.store);
    let broker = DatabaseBroker::new(&there.store);
    publisher.declare(&consumers::topology(Duration::from_secs(900))).await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    for n in 1..=5 {
        let next = subscription.next();
        let publish = async {
            // Publish only after the consumer has started to wait.
            tokio::time::sleep(Duration::from_millis(50)).await;
            publisher.publish(vec![outgoing(&format!("e{n}"), "order.created")]).await.unwrap()
        };
        let (claimed, _) =
            within("a consumer of another process", async { tokio::join!(next, publish) }).await;
        let claimed = claimed.unwrap();
        assert_eq!(claimed.len(), 1);
        subscription.ack(&[claimed[0].tag]).await.unwrap();
    }
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn closing_store_sends_pending_notifications(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let there = here.open_as_other_process();
    let watched = there.store.clone();
    let watchers = tokio::spawn(async move { watched.watch().await });
    if kind == ServerKind::Postgres {
        // The first notification after LISTEN covers all partitions, because earlier notifications may be lost.
        within("the store listens", there.wake.notified()).await;
    }
    append(&here.store, &[event("e", 5, 1)]).await.unwrap();
    here.store.close().await;
    within("the relay of another process is notified", async {
        while !there.wake.notified().await.contains(partition(5)) {}
    })
    .await;
    watchers.abort();
}

/// A process that only receives notifications would not notice it.
async fn connection_that_the_network_has_dropped_silently_is_replaced(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let proxy = Proxy::start(here.database.server().port()).await.unwrap();
    let there = here.open_through(proxy.port());
    let watchers = [here.store.clone(), there.store.clone()]
        .map(|store| tokio::spawn(async move { store.watch().await }));
    let notifies = async |event_id: &str, seq: i64| {
        append(&here.store, &[event(event_id, 5, seq)]).await.unwrap();
        within("the relay of another process is notified", async {
            while !there.wake.notified().await.contains(partition(5)) {}
        })
        .await;
    };
    notifies("before", 1).await;
    proxy.strand();
    notifies("after", 2).await;
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
}
