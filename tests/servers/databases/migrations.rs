//! Migrations: from several places at once, and gone on with where one was cut off.

use std::sync::Arc;

use handover_application::Wake;
use handover_application::ports::Store;
use handover_contract::samples::{order_id, start};
use handover_domain::{OrderAssets, TenantId};
use handover_memory::ManualClock;
use handover_tests::server_rigs::{migrated, open, outside, shared};
use handover_tests::servers::database::{ServerKind, TestDatabase};

use super::on_every_server;

on_every_server!(
    migrating_from_many_places_at_once_is_safe,
    a_migration_that_was_cut_off_is_gone_on_with,
    orders_from_before_there_were_assets_name_none,
);

/// What takes version 6, and what came after it, away again.
async fn undo_assets(database: &TestDatabase) {
    let (index, audit_index) = match database.server().kind() {
        ServerKind::MariaDb => {
            ("DROP INDEX idx_orders_updated ON orders", "DROP INDEX idx_audit_changes ON audit_log")
        }
        ServerKind::Postgres => ("DROP INDEX idx_orders_updated", "DROP INDEX idx_audit_changes"),
    };
    for undone in [
        audit_index,
        "ALTER TABLE audit_log DROP COLUMN is_change, DROP COLUMN matched",
        "DROP TABLE idempotency_keys",
        "DROP TABLE coupons, asset_holds, asset_balances, asset_operations, ledger_entries, refunds",
        index,
        "ALTER TABLE orders DROP COLUMN coupon_id, DROP COLUMN coupon_minor, DROP COLUMN wallet_minor, \
         DROP COLUMN points, DROP COLUMN refund_id",
        "DELETE FROM _sqlx_migrations WHERE version >= 6",
    ] {
        outside(database, undone).await.unwrap();
    }
}

async fn migrating_from_many_places_at_once_is_safe(kind: ServerKind) {
    let database = shared(kind).await.database(None).await.unwrap();
    let stores = (0..4).map(|_| async {
        let store = open(&database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
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
    let store = open(&database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
    let needed = store.schema_version().await.unwrap().1;
    undo_assets(&database).await;
    match kind {
        ServerKind::MariaDb => {
            // As if the process had ended in the middle of it.
            for undone in [
                "DROP TABLE audit_log",
                "DROP INDEX idx_payments_order ON payments",
                "DROP INDEX idx_consume_event ON event_consume_log",
                "DROP INDEX idx_listing_changes_product ON listing_changes",
                "DELETE FROM _sqlx_migrations WHERE version > 4",
                "UPDATE _sqlx_migrations SET success = false WHERE version = 4",
            ] {
                outside(&database, undone).await.unwrap();
            }
        }
        ServerKind::Postgres => {
            for undone in [
                "DROP TABLE audit_log",
                "DROP FUNCTION audit_log_refuses",
                "ALTER TABLE outbox_events DROP COLUMN released_time",
                "CREATE INDEX idx_outbox_failed ON outbox_events (id) WHERE status = 'FAILED'",
                "ALTER TABLE dead_letters DROP COLUMN decided_at, DROP COLUMN note",
                "DROP INDEX idx_dead_letters_key, idx_dead_letters_tenant, idx_dead_letters_undecided",
                "DROP INDEX idx_payments_order, idx_consume_event, idx_consume_open, idx_consume_count",
                "DROP INDEX idx_listing_changes_product",
                "DELETE FROM _sqlx_migrations WHERE version >= 4",
            ] {
                outside(&database, undone).await.unwrap();
            }
        }
    }
    assert!(!store.is_ready().await.unwrap());
    store.migrate().await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), (Some(needed), needed));
    for table in ["audit_log", "dead_letters", "payments", "outbox_events"] {
        outside(&database, &format!("SELECT count(*) FROM {table}")).await.unwrap();
    }
    store.migrate().await.unwrap();
}

/// Version 6 comes to orders that are there; where DDL is not transactional, also in two halves.
async fn orders_from_before_there_were_assets_name_none(kind: ServerKind) {
    let database = migrated(kind).await;
    let store = open(&database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
    undo_assets(&database).await;
    outside(
        &database,
        "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, \
         payable_minor, version, create_time, update_time) VALUES (7, 'O-7', 1, 1, 2, 1, 'pending', 500, 500, 1, \
         '2026-02-04 10:30:00', '2026-02-04 10:30:00')",
    )
    .await
    .unwrap();
    store.migrate().await.unwrap();
    if kind == ServerKind::MariaDb {
        for cut_off in [
            "DROP TABLE asset_operations, ledger_entries, refunds, idempotency_keys",
            "ALTER TABLE orders DROP COLUMN refund_id",
            "DROP INDEX idx_audit_changes ON audit_log",
            "ALTER TABLE audit_log DROP COLUMN is_change, DROP COLUMN matched",
            "DELETE FROM _sqlx_migrations WHERE version > 6",
            "UPDATE _sqlx_migrations SET success = false WHERE version = 6",
        ] {
            outside(&database, cut_off).await.unwrap();
        }
        assert!(!store.is_ready().await.unwrap());
        store.migrate().await.unwrap();
    }
    assert!(store.is_ready().await.unwrap());
    let mut view = store.view().await.unwrap();
    let order = view.order_by_id(TenantId::DEFAULT, order_id(7)).await.unwrap().unwrap();
    assert_eq!((order.assets, order.refund), (OrderAssets::NONE, None));
    assert_eq!(view.ledger_flaws(None, 9).await.unwrap(), []);
}
