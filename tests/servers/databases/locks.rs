//! Locks: no transaction waits for rows that it does not need.

use std::num::NonZeroU16;
use std::time::Duration;

use handover_contract::samples::{confirmed, event, outgoing, partition, relay, start};
use handover_contract::{TIMEOUT, within};
use handover_events::TenantId;
use handover_outbox::ports::{Broker, OwnedPartition, Store, StoreError};
use handover_sql::DatabaseBroker;
use handover_tests::client::Api;
use handover_tests::process::{eventually, fresh};
use handover_tests::servers::database::ServerKind;
use marketplace::consumers::{self, INVENTORY_QUEUE};
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::{Fixture, append, on_every_server};

on_every_server!(
    timed_out_statement_ends_in_server,
    claim_skips_locked_messages_and_locks_only_claimed_ones,
    relays_settle_different_partitions_concurrently,
    lock_of_another_program_delays_only_the_effects_that_need_it,
);

const PREFETCH: NonZeroU16 = NonZeroU16::new(20).unwrap();

/// A separate transaction that holds a lock.
enum OpenTransaction {
    MariaDb(MySqlConnection),
    Postgres(PgConnection),
}

impl OpenTransaction {
    /// Ends the transaction. After this call its locks are free; after a drop the server would release them later.
    async fn rollback(self) {
        match self {
            OpenTransaction::MariaDb(mut connection) => {
                sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.unwrap();
            }
            OpenTransaction::Postgres(mut connection) => {
                sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.unwrap();
            }
        }
    }
}

async fn lock_rows(fixture: &Fixture, sql: &'static str) -> OpenTransaction {
    let url = fixture.database.url();
    match fixture.database.server().kind() {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            for sql in ["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", sql] {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            OpenTransaction::MariaDb(connection)
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            for sql in ["BEGIN ISOLATION LEVEL READ COMMITTED", sql] {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            OpenTransaction::Postgres(connection)
        }
    }
}

/// A statement runs for an hour. When its client times out, the server must end the statement; otherwise it would keep
/// its locks.
async fn timed_out_statement_ends_in_server(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let (slow, running) = match kind {
        ServerKind::MariaDb => (
            vec!["CREATE TRIGGER slow BEFORE INSERT ON outbox_events FOR EACH ROW SET @slept = SLEEP(3600)"],
            "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep' AND db = DATABASE()",
        ),
        ServerKind::Postgres => (
            vec![
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$",
                "CREATE TRIGGER slow BEFORE INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION slow()",
            ],
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()",
        ),
    };
    let url = fixture.database.url();
    let mut unit = fixture.store.begin().await.unwrap();
    for sql in slow {
        match kind {
            ServerKind::MariaDb => drop(
                sqlx::raw_sql(AssertSqlSafe(sql))
                    .execute(&mut MySqlConnection::connect(&url).await.unwrap())
                    .await
                    .unwrap(),
            ),
            ServerKind::Postgres => drop(
                sqlx::raw_sql(AssertSqlSafe(sql))
                    .execute(&mut PgConnection::connect(&url).await.unwrap())
                    .await
                    .unwrap(),
            ),
        }
    }
    let error = unit.outbox().append(&[event("e-1", 1, 1)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    eventually(TIMEOUT, async || {
        let count: i64 = match kind {
            ServerKind::MariaDb => {
                let mut connection = MySqlConnection::connect(&url).await?;
                sqlx::query_scalar(running).fetch_one(&mut connection).await?
            }
            ServerKind::Postgres => {
                let mut connection = PgConnection::connect(&url).await?;
                sqlx::query_scalar(running).fetch_one(&mut connection).await?
            }
        };
        if count == 0 { Ok(()) } else { Err(format!("{count} statements are still running").into()) }
    })
    .await;
}

/// Another program locks the credit row of one buyer. The effects for other buyers are applied meanwhile, those for this
/// buyer afterwards, and no attempt is counted.
async fn lock_of_another_program_delays_only_the_effects_that_need_it(kind: ServerKind) {
    const LOCKED: i64 = 5;
    let fixture = Fixture::new(kind).await;
    let (_folder, launch) = fresh();
    let running = launch
        .set("HANDOVER_DATABASE__URL", &fixture.database.url())
        .set("HANDOVER_CONSUMER__PREFETCH", "4")
        .set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "500ms")
        .set("HANDOVER_AUTH__JWT_SECRET", &"5f".repeat(32))
        .set("HANDOVER_GATEWAY__SECRET", &format!("whsec_{}", "5f".repeat(32)))
        .start()
        .unwrap();
    let api = Api::of(&running);
    let cancel = async |buyer: i64| {
        let product = api.list_product(1, "Desk lamp").await.unwrap().id("productId");
        let order = api.place_order(buyer, product).await.unwrap().id("orderId");
        assert!(api.cancel(buyer, order).await.unwrap().done());
    };
    let cancelled = async |buyer: i64| {
        let mut view = fixture.store.view().await.unwrap();
        let credit = view.credit_of(TenantId::DEFAULT, buyer.try_into().unwrap()).await.unwrap();
        credit.map_or(0, |credit| credit.counts.cancelled_by_buyer)
    };
    let expect = async |buyer: i64, count: u32| {
        eventually(TIMEOUT, async || match cancelled(buyer).await {
            found if found == count => Ok(()),
            found => Err(format!("buyer {buyer}: {found} of {count} effects").into()),
        })
        .await;
    };
    for buyer in [LOCKED, LOCKED + 1] {
        cancel(buyer).await;
        expect(buyer, 1).await;
    }
    let lock = "SELECT buyer_id FROM buyer_credit WHERE tenant_id = 1 AND buyer_id = 5 FOR UPDATE";
    let transaction = lock_rows(&fixture, lock).await;
    // More events than the consumer processes at a time.
    for _ in 0..6 {
        cancel(LOCKED).await;
    }
    // One buyer with a row, and one without.
    for buyer in [LOCKED + 1, LOCKED + 2] {
        cancel(buyer).await;
    }
    expect(LOCKED + 1, 2).await;
    expect(LOCKED + 2, 1).await;
    assert_eq!(cancelled(LOCKED).await, 1, "the lock was not held");
    transaction.rollback().await;
    expect(LOCKED, 7).await;
    let counted =
        "UPDATE event_consume_log SET cost_ms = cost_ms + 1 WHERE attempts > 1 OR status <> 'SUCCESS'";
    assert_eq!(fixture.outside(counted).await.unwrap(), 0, "an attempt was counted");
}

/// With a wrong index InnoDB would lock every scanned row, and a second worker would find nothing.
async fn claim_skips_locked_messages_and_locks_only_claimed_ones(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let broker = DatabaseBroker::new(&fixture.store);
    broker.declare(&consumers::topology(Duration::from_secs(900))).await.unwrap();
    let window = (0..100).map(|n| outgoing(&format!("e{n}"), "order.created")).collect();
    broker.publish(window).await.unwrap();
    let locked = "UPDATE outbox_broker_messages SET correlation_id = 'locked' WHERE queue = 'inventory.update.queue' \
                  AND message_id IN ('e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7', 'e8', 'e9')";
    let transaction = lock_rows(&fixture, locked).await;
    let subscription = broker.subscribe(INVENTORY_QUEUE, PREFETCH).await.unwrap();
    let claimed = within("a claim while other messages are locked", subscription.next()).await.unwrap();
    let ids: Vec<_> = claimed.iter().filter_map(|one| one.message.message_id.clone()).collect();
    assert_eq!(ids, (10..30).map(|n| format!("e{n}")).collect::<Vec<_>>());
    within("a publish while messages are claimed", broker.publish(vec![outgoing("late", "order.created")]))
        .await
        .unwrap();
    transaction.rollback().await;
    subscription.ack(&claimed.iter().map(|one| one.tag).collect::<Vec<_>>()).await.unwrap();
    let rest = within("the locked messages", async {
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

async fn relays_settle_different_partitions_concurrently(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    append(&fixture.store, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1)]).await.unwrap();
    let mut unit = fixture.store.begin().await.unwrap();
    for (name, id) in [("a", 1), ("b", 2)] {
        unit.outbox().heartbeat(&relay(name), 5_000).await.unwrap();
        let free =
            unit.outbox().partition_leases().await.unwrap().remove(usize::from(partition(id).number()));
        let taken = unit.outbox().acquire_partition(&relay(name), &free, 5_000).await.unwrap();
        assert_eq!(taken, handover_outbox::ports::Changed::One);
    }
    unit.commit().await.unwrap();
    let held = |id| [OwnedPartition { partition: partition(id), epoch: 1 }];
    let mut first = fixture.store.begin().await.unwrap();
    assert!(!first.outbox().fence(&relay("a"), &held(1)).await.unwrap().is_empty());
    assert_eq!(first.outbox().mark_sent(&[&confirmed("a")], start()).await.unwrap(), 1);
    let mut second = fixture.store.begin().await.unwrap();
    within("the other relay marks its row as SENT", async {
        assert!(!second.outbox().fence(&relay("b"), &held(2)).await.unwrap().is_empty());
        assert_eq!(second.outbox().mark_sent(&[&confirmed("b")], start()).await.unwrap(), 1);
        second.commit().await.unwrap();
        // The open transaction of the first relay does not block a business transaction that inserts an event.
        append(&fixture.store, &[event("d", 1, 2)]).await.unwrap();
    })
    .await;
    first.commit().await.unwrap();
}
