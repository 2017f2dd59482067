//! Wake-ups between processes: two stores on one database, each as a process of its own has it. Their clocks stand
//! still, so that nobody looks by himself.

use std::num::NonZeroU16;
use std::time::Duration;

use handover_contract::samples::{event, outgoing, partition};
use handover_contract::within;
use handover_outbox::ports::Broker;
use handover_sql::DatabaseBroker;
use handover_tests::servers::database::ServerKind;
use marketplace::queues::{self, INVENTORY_QUEUE};

use super::{Fixture, append, on_every_server};

on_every_server!(
    a_commit_of_one_process_wakes_the_relay_of_another,
    what_one_process_publishes_wakes_the_consumers_of_another,
    a_process_that_ends_tells_what_it_committed,
);

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

async fn a_commit_of_one_process_wakes_the_relay_of_another(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let there = here.beside();
    let watching = [here.store.clone(), there.store.clone()]
        .map(|store| tokio::spawn(async move { store.watch().await }));
    for n in 1..=5 {
        append(&here.store, &[event(&format!("e{n}"), n, 1)]).await.unwrap();
        let wanted = partition(n);
        within("the relay of another process is woken", async {
            while !there.wake.rung().await.contains(wanted) {}
        })
        .await;
    }
    watching.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn what_one_process_publishes_wakes_the_consumers_of_another(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let there = here.beside();
    let watching = [here.store.clone(), there.store.clone()]
        .map(|store| tokio::spawn(async move { store.watch().await }));
    let (publisher, broker) = (DatabaseBroker::new(&here.store), DatabaseBroker::new(&there.store));
    publisher.declare(&queues::topology(Duration::from_secs(900))).await.unwrap();
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    for n in 1..=5 {
        let next = subscription.next();
        let publish = async {
            // Once the consumer waits.
            tokio::time::sleep(Duration::from_millis(50)).await;
            publisher.publish(vec![outgoing(&format!("e{n}"), "order.created")]).await.unwrap()
        };
        let (claimed, _) =
            within("a consumer of another process", async { tokio::join!(next, publish) }).await;
        let claimed = claimed.unwrap();
        assert_eq!(claimed.len(), 1);
        subscription.ack(&[claimed[0].tag]).await.unwrap();
    }
    watching.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn a_process_that_ends_tells_what_it_committed(kind: ServerKind) {
    let here = Fixture::new(kind).await;
    let there = here.beside();
    let watched = there.store.clone();
    let watching = tokio::spawn(async move { watched.watch().await });
    if kind == ServerKind::Postgres {
        // Everything may have been missed before it listens: only then is silence broken by what is told.
        within("it listens", there.wake.rung()).await;
    }
    append(&here.store, &[event("e", 5, 1)]).await.unwrap();
    here.store.close().await;
    within("the relay of another process is woken", async {
        while !there.wake.rung().await.contains(partition(5)) {}
    })
    .await;
    watching.abort();
}
