//! That SQLite files of earlier versions are brought up to date with what is in them.

use std::sync::Arc;

use handover_application::Wake;
use handover_application::ports::{AssetQueries, OrderQueries};
use handover_domain::{OrderAssets, OrderId, TenantId};

use super::SqlStore;
use super::plans::NoClock;
use crate::SqliteOptions;

const UNDO_ASSETS: &[&str] = &[
    "DROP INDEX idx_audit_changes",
    "ALTER TABLE audit_log DROP COLUMN is_change",
    "ALTER TABLE audit_log DROP COLUMN matched",
    "DROP TABLE coupons",
    "DROP TABLE asset_holds",
    "DROP TABLE asset_balances",
    "DROP TABLE asset_operations",
    "DROP TABLE ledger_entries",
    "DROP TABLE refunds",
    "DROP INDEX idx_orders_updated",
    "ALTER TABLE orders DROP COLUMN coupon_id",
    "ALTER TABLE orders DROP COLUMN coupon_minor",
    "ALTER TABLE orders DROP COLUMN wallet_minor",
    "ALTER TABLE orders DROP COLUMN points",
    "ALTER TABLE orders DROP COLUMN refund_id",
    "DROP TABLE idempotency_keys",
    "DELETE FROM _sqlx_migrations WHERE version >= 6",
];

#[tokio::test]
async fn orders_from_before_there_were_assets_name_none() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let store = SqlStore::open_sqlite(&options, Arc::new(NoClock), Wake::default()).await.unwrap();
    store.migrate().await.unwrap();
    let mut session = store.writing().await.unwrap();
    for undone in UNDO_ASSETS {
        session.execute(undone, Vec::new()).await.unwrap();
    }
    let order = "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, \
                 payable_minor, version, create_time, update_time) VALUES (7, 'O-7', 1, 1, 2, 1, 'pending', 500, 500, \
                 1, '2026-02-04T10:30:00.000000Z', '2026-02-04T10:30:00.000000Z')";
    session.execute(order, Vec::new()).await.unwrap();
    drop(session);
    assert_eq!(store.schema_version().await.unwrap(), (Some(5), 8));
    store.migrate().await.unwrap();
    let mut session = store.reading().await.unwrap();
    let id = OrderId::try_from(7).unwrap();
    let order = session.order_by_id(TenantId::DEFAULT, id).await.unwrap().unwrap();
    assert_eq!((order.assets, order.refund), (OrderAssets::NONE, None));
    assert_eq!(session.ledger_flaws(None, 9).await.unwrap(), []);
}
