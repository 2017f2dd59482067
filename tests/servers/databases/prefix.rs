//! The prefix of the toolkit's tables on servers, and names that another application uses.

use std::sync::Arc;
use std::time::Duration;

use handover_contract::samples::{event, partition, start};
use handover_contract::within;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::Store as _;
use handover_sql::{SchemaError, ServerOptions, SqlStore, TablePrefix};
use handover_tests::server_rigs::{outside, shared};
use handover_tests::servers::database::{ServerKind, TestDatabase};

use super::on_every_server;

on_every_server!(
    everything_in_the_schema_has_the_prefix_except_columns,
    index_of_another_application_matters_where_indexes_share_a_namespace,
    stores_with_different_prefixes_do_not_wake_each_other,
);

/// A store with this prefix, as in a process of its own.
fn open(database: &TestDatabase, prefix: &str) -> (SqlStore, WakeupNotifier) {
    let options = ServerOptions::parse(&database.url()).unwrap();
    let options = options.table_prefix(TablePrefix::new(prefix).unwrap());
    let wake = WakeupNotifier::default();
    (SqlStore::open_server(&options, Arc::new(ManualClock::new(start())), wake.clone()), wake)
}

async fn texts(store: &SqlStore, sql: &str) -> Vec<String> {
    let rows = store.view().await.unwrap().fetch(sql, Vec::new()).await.unwrap();
    rows.iter().map(|row| row.text("name").unwrap().to_owned()).collect()
}

/// The names in the schema. On MariaDB the names of indexes and of most constraints belong to a table.
fn names(kind: ServerKind) -> &'static str {
    match kind {
        ServerKind::MariaDb => {
            "SELECT CAST(table_name AS CHAR) AS name FROM information_schema.tables WHERE table_schema = DATABASE() \
             UNION SELECT CAST(constraint_name AS CHAR) FROM information_schema.referential_constraints \
             WHERE constraint_schema = DATABASE() ORDER BY name"
        }
        ServerKind::Postgres => {
            "SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace \
             UNION SELECT conname::text FROM pg_constraint WHERE connamespace = 'public'::regnamespace \
             UNION SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace \
             UNION SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY name"
        }
    }
}

fn columns(kind: ServerKind) -> &'static str {
    match kind {
        ServerKind::MariaDb => {
            "SELECT CONCAT(table_name, '.', column_name) AS name FROM information_schema.columns \
             WHERE table_schema = DATABASE() ORDER BY name"
        }
        ServerKind::Postgres => {
            "SELECT table_name || '.' || column_name AS name FROM information_schema.columns \
             WHERE table_schema = 'public' ORDER BY name"
        }
    }
}

async fn everything_in_the_schema_has_the_prefix_except_columns(kind: ServerKind) {
    let plain = shared(kind).await.database(None).await.unwrap();
    let (plain_store, _) = open(&plain, "");
    plain_store.migrate().await.unwrap();
    let database = shared(kind).await.database(None).await.unwrap();
    let (store, _) = open(&database, "own_");
    store.migrate().await.unwrap();
    for names in [names(kind), columns(kind)] {
        let expected: Vec<String> =
            texts(&plain_store, names).await.iter().map(|name| format!("own_{name}")).collect();
        assert!(expected.len() > 15);
        assert_eq!(texts(&store, names).await, expected);
    }
    assert!(store.is_ready(&[]).await.unwrap());
    assert_eq!(store.compare_schema(&[]).await.unwrap(), []);
    store.migrate().await.unwrap();
}

async fn index_of_another_application_matters_where_indexes_share_a_namespace(kind: ServerKind) {
    let database = shared(kind).await.database(None).await.unwrap();
    outside(&database, "CREATE TABLE clubs (name VARCHAR(20))").await.unwrap();
    outside(&database, "CREATE INDEX uk_event_id ON clubs (name)").await.unwrap();
    let (store, _) = open(&database, "");
    match (kind, store.migrate().await) {
        (ServerKind::MariaDb, done) => done.unwrap(),
        (ServerKind::Postgres, refused) => {
            let is_named = |error: &SchemaError| error.to_string().contains("an index uk_event_id ");
            assert!(refused.as_ref().is_err_and(is_named), "{refused:?}");
            open(&database, "own_").0.migrate().await.unwrap();
        }
    }
}

async fn stores_with_different_prefixes_do_not_wake_each_other(kind: ServerKind) {
    let database = shared(kind).await.database(None).await.unwrap();
    let (here, _) = open(&database, "one_");
    here.migrate().await.unwrap();
    let (same, same_wake) = open(&database, "one_");
    let (other, other_wake) = open(&database, "two_");
    other.migrate().await.unwrap();
    let watchers = [here.clone(), same, other].map(|store| tokio::spawn(async move { store.watch().await }));
    if kind == ServerKind::Postgres {
        // The first notification after LISTEN covers all partitions, because earlier notifications may be lost.
        within("the stores listen", async { tokio::join!(same_wake.notified(), other_wake.notified()) })
            .await;
    }
    let mut unit = here.begin().await.unwrap();
    handover_outbox::ports::UnitOfWork::outbox(&mut *unit).append(&[event("e", 5, 1)]).await.unwrap();
    handover_outbox::ports::UnitOfWork::commit(unit).await.unwrap();
    within("the relay of another process is notified", async {
        while !same_wake.notified().await.contains(partition(5)) {}
    })
    .await;
    // On MariaDB longer than the pause between two polls.
    let woken = tokio::time::timeout(Duration::from_millis(600), other_wake.notified()).await;
    assert!(woken.is_err(), "{woken:?}");
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
}
