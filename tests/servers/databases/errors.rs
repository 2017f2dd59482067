//! Classification of the servers' errors, and what units of work can still do after them.

use std::time::Duration;

use handover_contract::samples::{event, later, outgoing};
use handover_contract::{TIMEOUT, within};
use handover_outbox::ports::{Broker, Changed, Store, StoreError};
use handover_sql::DatabaseBroker;
use handover_tests::servers::PASSWORD;
use handover_tests::servers::database::ServerKind;
use marketplace::consumers;
use marketplace::ports::Work;
use marketplace_contract::samples::{order, order_moved_to};
use marketplace_domain::{Order, OrderStatus};

use super::{Fixture, append, on_every_server};

on_every_server!(
    lock_timeout_is_transient_and_unit_of_work_cannot_be_committed,
    deadlock_is_transient_for_one_of_two_units_of_work,
    connection_killed_in_unit_of_work_is_outage_and_next_unit_of_work_succeeds,
    killed_idle_connections_cause_no_error,
    dropped_units_of_work_leave_no_transaction_open,
    wrong_credentials_are_an_outage,
);

async fn two_orders(fixture: &Fixture) -> [Order; 2] {
    let orders = [order(1), order(2)];
    let mut unit = fixture.store.begin().await.unwrap();
    for order in &orders {
        unit.insert_order(order).await.unwrap();
    }
    unit.commit().await.unwrap();
    orders
}

async fn pay(unit: &mut Work, order: &Order) -> Result<Changed, StoreError> {
    unit.advance_order(&order_moved_to(order, OrderStatus::Paid, later(1))).await
}

/// After a lock timeout MariaDB undoes only the failed statement (error 1205), and PostgreSQL rejects all later
/// statements. Yet both accept COMMIT: MariaDB would commit a part of the unit of work, PostgreSQL nothing.
async fn lock_timeout_is_transient_and_unit_of_work_cannot_be_committed(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let [order, _] = two_orders(&fixture).await;
    let mut holder = fixture.store.begin().await.unwrap();
    assert_eq!(pay(holder.as_mut(), &order).await.unwrap(), Changed::One);
    let mut waiter = fixture.store.begin().await.unwrap();
    waiter.outbox().append(&[event("half", 1, 1)]).await.unwrap();
    let waited = tokio::time::timeout(TIMEOUT, pay(waiter.as_mut(), &order)).await.unwrap();
    assert!(matches!(waited, Err(StoreError::Transient(_))), "{waited:?}");
    assert!(waiter.commit().await.is_err(), "a part of the unit of work was committed");
    holder.commit().await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    assert!(view.outbox_view().outbox_by_event(&["half".parse().unwrap()]).await.unwrap().is_empty());
}

async fn deadlock_is_transient_for_one_of_two_units_of_work(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let [one, other] = two_orders(&fixture).await;
    let mut a = fixture.store.begin().await.unwrap();
    let mut b = fixture.store.begin().await.unwrap();
    assert_eq!(pay(a.as_mut(), &one).await.unwrap(), Changed::One);
    assert_eq!(pay(b.as_mut(), &other).await.unwrap(), Changed::One);
    let first = tokio::spawn(async move {
        let paid = pay(a.as_mut(), &other).await;
        (paid.is_ok(), paid.map(drop), a.commit().await)
    });
    let second = tokio::spawn(async move {
        let paid = pay(b.as_mut(), &one).await;
        (paid.is_ok(), paid.map(drop), b.commit().await)
    });
    let outcomes =
        within("both units of work end", async { [first.await.unwrap(), second.await.unwrap()] }).await;
    let transient = |error: &Result<(), StoreError>| matches!(error, Err(StoreError::Transient(_)));
    assert_eq!(outcomes.iter().filter(|(_, paid, _)| transient(paid)).count(), 1, "{outcomes:?}");
    // The commit of the unit of work with the transient error failed; the commit of the other one succeeded.
    assert!(outcomes.iter().all(|(paid, _, committed)| *paid == committed.is_ok()), "{outcomes:?}");
}

/// Closes every connection to this database, as an administrator or a network failure does.
async fn kill_connections(fixture: &Fixture, kind: ServerKind) {
    match kind {
        ServerKind::MariaDb => {
            let sql = format!(
                "BEGIN NOT ATOMIC FOR c IN (SELECT id FROM information_schema.processlist WHERE db = '{}' \
                 AND id <> CONNECTION_ID()) DO EXECUTE IMMEDIATE CONCAT('KILL ', c.id); END FOR; END",
                fixture.database.name()
            );
            fixture.outside(&sql).await.unwrap();
        }
        ServerKind::Postgres => {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            fixture.outside(sql).await.unwrap();
        }
    }
}

async fn connection_killed_in_unit_of_work_is_outage_and_next_unit_of_work_succeeds(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let mut in_work = fixture.store.begin().await.unwrap();
    in_work.outbox().append(&[event("in-work", 1, 1)]).await.unwrap();
    let mut at_commit = fixture.store.begin().await.unwrap();
    at_commit.outbox().append(&[event("at-commit", 2, 1)]).await.unwrap();
    kill_connections(&fixture, kind).await;
    let lost = in_work.outbox().append(&[event("lost", 1, 2)]).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert!(in_work.commit().await.is_err());
    let unknown = at_commit.commit().await;
    assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))), "{unknown:?}");
    append(&fixture.store, &[event("after", 3, 1)]).await.unwrap();
    let ids = ["in-work", "lost", "at-commit", "after"].map(|id| id.parse().unwrap());
    let rows = fixture.store.view().await.unwrap().outbox_view().outbox_by_event(&ids).await.unwrap();
    let found: Vec<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
    assert_eq!(found, ["after"]);
}

async fn killed_idle_connections_cause_no_error(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    for round in 0..5 {
        let mut units = Vec::new();
        for _ in 0..8 {
            units.push(fixture.store.begin().await.unwrap());
        }
        drop(units);
        kill_connections(&fixture, kind).await;
        append(&fixture.store, &[event(&format!("e{round}"), 1, round)]).await.unwrap();
    }
}

/// Drops units of work at any time before their commit. The next user of the connection must not be inside the old
/// transaction: its writes would be lost, and the dropped writes would be committed with a later unit of work.
async fn dropped_units_of_work_leave_no_transaction_open(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let broker = DatabaseBroker::new(&fixture.store);
    broker.declare(&consumers::topology(Duration::from_secs(900))).await.unwrap();
    const ROUNDS: u64 = 200;
    for step in 0..ROUNDS {
        let unit = async {
            let mut unit = fixture.store.begin().await?;
            unit.outbox().append(&[event(&format!("cut-{step}"), 1, 1)]).await
        };
        let _ = tokio::time::timeout(Duration::from_micros(step * 10), unit).await;
        // `publish` inserts the row outside a unit of work, with one statement that is a transaction of its own.
        broker.publish(vec![outgoing(&format!("published-{step}"), "order.paid")]).await.unwrap();
        append(&fixture.store, &[event(&format!("whole-{step}"), 2, 1)]).await.unwrap();
    }
    let count = async |table: &str| fixture.outside(&format!("UPDATE {table}")).await.unwrap();
    assert_eq!(
        count("outbox_broker_messages SET kind = 'seen' WHERE queue = 'order.fulfillment.queue'").await,
        ROUNDS
    );
    assert_eq!(count("outbox_events SET retry_count = 1 WHERE event_id LIKE 'whole-%'").await, ROUNDS);
    assert_eq!(count("outbox_events SET retry_count = 1 WHERE event_id LIKE 'cut-%'").await, 0);
}

async fn wrong_credentials_are_an_outage(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let wrong_credentials = match kind {
        ServerKind::MariaDb => fixture.database.url().replace(PASSWORD, "wrong"),
        ServerKind::Postgres => fixture.database.url().replace("//handover:", "//nobody:"),
    };
    let store = handover_tests::server_rigs::open(
        &wrong_credentials,
        std::sync::Arc::new(handover_memory::ManualClock::new(later(0))),
        &handover_outbox::WakeupNotifier::default(),
    );
    let refused = store.begin().await.map(drop);
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}
