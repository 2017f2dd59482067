//! Who waits for whom: nobody for what is not his.

use std::num::NonZeroU16;
use std::time::Duration;

use handover_application::ports::{Broker, PartitionHold, Store};
use handover_application::topology::{INVENTORY_QUEUE, Topology};
use handover_contract::samples::{confirmed, event, outgoing, partition, relay, start};
use handover_contract::within;
use handover_sql::DatabaseBroker;
use handover_tests::servers::database::ServerKind;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::{Fixture, append, on_every_server};

on_every_server!(
    a_claim_passes_over_what_others_have_locked_and_locks_nothing_else,
    relays_that_settle_different_partitions_do_not_wait_for_each_other,
);

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

/// A transaction of somebody else that has locked something. Dropping it ends it.
enum Holder {
    MariaDb { _connection: MySqlConnection },
    Postgres { _connection: PgConnection },
}

async fn hold(fixture: &Fixture, sql: &'static str) -> Holder {
    let url = fixture.database.url();
    match fixture.database.server().kind() {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            for sql in ["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", sql] {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            Holder::MariaDb { _connection: connection }
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            for sql in ["BEGIN ISOLATION LEVEL READ COMMITTED", sql] {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            Holder::Postgres { _connection: connection }
        }
    }
}

/// With a wrong index InnoDB would lock every row it scans, and a second worker find nothing.
async fn a_claim_passes_over_what_others_have_locked_and_locks_nothing_else(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let broker = DatabaseBroker::new(&fixture.store);
    broker.declare(&Topology::standard(Duration::from_secs(900))).await.unwrap();
    let window = (0..100).map(|n| outgoing(&format!("e{n}"), "order.created")).collect();
    broker.publish(window).await.unwrap();
    let locked = "UPDATE broker_messages SET correlation_id = 'locked' WHERE queue = 'inventory.update.queue' \
                  AND message_id IN ('e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7', 'e8', 'e9')";
    let holder = hold(&fixture, locked).await;
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let claimed = within("a claim beside another", subscription.next()).await.unwrap();
    let ids: Vec<_> = claimed.iter().filter_map(|one| one.message.message_id.clone()).collect();
    assert_eq!(ids, (10..30).map(|n| format!("e{n}")).collect::<Vec<_>>());
    within("a publish beside a claim", broker.publish(vec![outgoing("late", "order.created")]))
        .await
        .unwrap();
    drop(holder);
    subscription.ack(&claimed.iter().map(|one| one.tag).collect::<Vec<_>>()).await.unwrap();
    let rest = within("what was locked", async {
        loop {
            let claimed = subscription.next().await.unwrap();
            if claimed.iter().any(|one| one.message.message_id.as_deref() == Some("e0")) {
                return claimed;
            }
            subscription.ack(&claimed.iter().map(|one| one.tag).collect::<Vec<_>>()).await.unwrap();
        }
    })
    .await;
    assert!(!rest.is_empty());
}

async fn relays_that_settle_different_partitions_do_not_wait_for_each_other(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    append(&fixture.store, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1)]).await.unwrap();
    let mut unit = fixture.store.begin().await.unwrap();
    for (name, id) in [("a", 1), ("b", 2)] {
        unit.heartbeat(&relay(name), 5_000).await.unwrap();
        let taken = unit.take_partition(&relay(name), partition(id), 0, 5_000).await.unwrap();
        assert_eq!(taken, handover_application::ports::Changed::One);
    }
    unit.commit().await.unwrap();
    let held = |id| [PartitionHold { partition: partition(id), epoch: 1 }];
    let mut first = fixture.store.begin().await.unwrap();
    assert!(!first.fence(&relay("a"), &held(1)).await.unwrap().is_empty());
    assert_eq!(first.mark_sent(&[&confirmed("a")], start()).await.unwrap(), 1);
    let mut second = fixture.store.begin().await.unwrap();
    within("the other relay settles", async {
        assert!(!second.fence(&relay("b"), &held(2)).await.unwrap().is_empty());
        assert_eq!(second.mark_sent(&[&confirmed("b")], start()).await.unwrap(), 1);
        second.commit().await.unwrap();
        // And whoever sells goes on selling.
        append(&fixture.store, &[event("d", 1, 2)]).await.unwrap();
    })
    .await;
    first.commit().await.unwrap();
}
