//! Migrations: from several places at once, and gone on with where one was cut off.

use std::sync::Arc;

use handover_application::Wake;
use handover_memory::ManualClock;
use handover_tests::samples::start;
use handover_tests::server_rigs::{migrated, open, outside, shared};
use handover_tests::servers::database::ServerKind;

use crate::on_every_server;

on_every_server!(migrating_from_many_places_at_once_is_safe, a_migration_that_was_cut_off_is_gone_on_with,);

async fn migrating_from_many_places_at_once_is_safe(kind: ServerKind) {
    let database = shared(kind).await.database(None).await.unwrap();
    let stores = (0..4).map(|_| async {
        let store = open(kind, &database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
        assert!(!store.is_ready().await? || store.schema_version().await?.0.is_some());
        store.migrate().await?;
        store.is_ready().await
    });
    for ready in futures_util::future::join_all(stores).await {
        assert!(ready.unwrap());
    }
}

/// Where DDL is not transactional, what was done stays done; elsewhere it is undone whole.
async fn a_migration_that_was_cut_off_is_gone_on_with(kind: ServerKind) {
    let database = migrated(kind).await;
    let store = open(kind, &database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
    let needed = store.schema_version().await.unwrap().1;
    match kind {
        ServerKind::MariaDb => {
            // As if the process had ended after the first of its tables.
            outside(&database, "DROP TABLE broker_messages, broker_sessions, broker_bindings").await.unwrap();
            outside(&database, "UPDATE _sqlx_migrations SET success = false WHERE version = 2")
                .await
                .unwrap();
            outside(&database, "DELETE FROM _sqlx_migrations WHERE version > 2").await.unwrap();
            outside(&database, "DROP TABLE notifications, buyer_credit_changes, buyer_credit").await.unwrap();
            outside(&database, "DROP INDEX idx_shipments_seller ON shipments").await.unwrap();
            outside(&database, "DROP INDEX idx_shipments_buyer ON shipments").await.unwrap();
        }
        ServerKind::Postgres => {
            outside(&database, "DROP TABLE notifications, buyer_credit_changes, buyer_credit").await.unwrap();
            outside(&database, "DROP INDEX idx_shipments_seller, idx_shipments_buyer").await.unwrap();
            outside(&database, "DELETE FROM _sqlx_migrations WHERE version > 2").await.unwrap();
        }
    }
    assert!(!store.is_ready().await.unwrap());
    store.migrate().await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), (Some(needed), needed));
    for table in ["broker_messages", "broker_bindings", "notifications", "buyer_credit"] {
        outside(&database, &format!("SELECT count(*) FROM {table}")).await.unwrap();
    }
    store.migrate().await.unwrap();
}
