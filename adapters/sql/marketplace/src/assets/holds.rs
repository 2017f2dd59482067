//! Holds of assets for orders.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, LookUp, MAX_ROWS, Row, Session, Value, padded, values};
use marketplace_domain::{Asset, CouponId, Hold, OrderId, UserId};

use crate::of_orders::OfOrders;

const COLUMNS: &str = "tenant_id, order_id, asset, user_id, amount, coupon_id, status, reverted, version, create_time, \
                       update_time";
const KEY: &str = "tenant_id, order_id, asset";
/// The columns that an update of a hold overwrites: all but the key.
const REPLACED: &[&str] =
    &["user_id", "amount", "coupon_id", "status", "reverted", "version", "create_time", "update_time"];

type Key = (TenantId, OrderId, Asset);

fn key(hold: &Hold) -> Key {
    (hold.tenant, hold.order, hold.asset)
}

fn hold(row: &Row) -> Result<Hold, StoreError> {
    let row = row.of("asset_holds", "order_id");
    Ok(Hold {
        tenant: row.id("tenant_id")?,
        order: row.id("order_id")?,
        asset: row.named("asset")?,
        user: row.id("user_id")?,
        amount: row.int("amount")?,
        coupon: row.opt_id("coupon_id")?,
        status: row.named("status")?,
        reverted: row.flag("reverted")?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        update_time: row.time("update_time")?,
    })
}

fn row_of(hold: &Hold) -> Vec<Value> {
    values![
        hold.tenant.get(),
        hold.order.get(),
        hold.asset.as_str(),
        hold.user.get(),
        hold.amount,
        hold.coupon.map(CouponId::get),
        hold.status.as_str(),
        hold.reverted,
        hold.version,
        hold.create_time,
        hold.update_time,
    ]
}

pub(super) async fn of_orders(
    session: &mut Session,
    tenant: TenantId,
    orders: &[OrderId],
) -> Result<Vec<Hold>, StoreError> {
    let columns = format!("{COLUMNS}, asset_no");
    let of_orders = OfOrders { table: "asset_holds", columns: &columns, sequence: "asset_no" };
    of_orders.fetch(session, (tenant, orders), hold).await
}

pub(super) async fn of_user(
    session: &mut Session,
    tenant: TenantId,
    user: UserId,
    asset: Asset,
) -> Result<Vec<Hold>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM asset_holds {index} WHERE tenant_id = ? AND user_id = ? AND status = 'FROZEN' \
         AND asset = ? ORDER BY order_id",
        index = session.dialect().index("idx_holds_user"),
    );
    let values = values![tenant.get(), user.get(), asset.as_str()];
    session.fetch(&sql, values).await?.iter().map(hold).collect()
}

/// The value of the generated column `asset_no`, which defines the sort order of assets.
const fn asset_no(asset: Asset) -> i64 {
    match asset {
        Asset::Coupon => 0,
        Asset::Wallet => 1,
        Asset::Points => 2,
        Asset::Cash => 3,
    }
}

/// A page of the frozen holds that were created at or before a time.
pub(crate) fn pending(
    dialect: &dyn Dialect,
    created_by: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId, Asset)>,
    most: u32,
) -> (String, Vec<Value>) {
    let index = dialect.index("idx_holds_frozen");
    let mut sql =
        format!("SELECT {COLUMNS} FROM asset_holds {index} WHERE status = 'FROZEN' AND create_time <= ?");
    let mut values = values![created_by];
    if let Some((created, order, asset)) = after {
        // `create_time >= ?` starts the scan at the time of the cursor: not every engine derives this start from the
        // condition that compares all three columns with the cursor.
        sql.push_str(
            " AND create_time >= ? AND (create_time > ? OR order_id > ? OR (order_id = ? AND asset_no > ?))",
        );
        values.extend(values![created, created, order.get(), order.get(), asset_no(asset)]);
    }
    sql.push_str(" ORDER BY create_time, order_id, asset_no LIMIT ?");
    values.push(most.into());
    (sql, values)
}

pub(super) async fn frozen(
    session: &mut Session,
    created_by: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId, Asset)>,
    most: u32,
) -> Result<Vec<Hold>, StoreError> {
    let (sql, values) = pending(session.dialect(), created_by, after, most);
    session.fetch(&sql, values).await?.iter().map(hold).collect()
}

pub(super) async fn lock(
    session: &mut Session,
    asset: Asset,
    orders: &[(TenantId, OrderId)],
) -> Result<Vec<Hold>, StoreError> {
    let orders: BTreeSet<_> = orders.iter().copied().collect();
    let mut of_tenant: BTreeMap<TenantId, Vec<i64>> = BTreeMap::new();
    for (tenant, order) in orders {
        of_tenant.entry(tenant).or_default().push(order.get());
    }
    let mut holds = Vec::new();
    for (tenant, orders) in of_tenant {
        for orders in orders.chunks(MAX_ROWS) {
            let orders = padded(orders);
            let (sql, values) = session.dialect().look_up(LookUp {
                columns: COLUMNS,
                from: format!("asset_holds {}", session.dialect().lock_index("PRIMARY")),
                column: "order_id",
                keys: orders.into_iter().map(Value::from).collect(),
                conditions: "tenant_id = ? AND asset = ?".to_owned(),
                values: values![tenant.get(), asset.as_str()],
                order: "order_id",
                lock: session.dialect().for_update(),
                ..LookUp::default()
            });
            for row in &session.fetch(&sql, values).await? {
                holds.push(hold(row)?);
            }
        }
    }
    Ok(holds)
}

pub(super) async fn put(session: &mut Session, holds: &[Hold]) -> Result<(), StoreError> {
    let distinct: BTreeSet<Key> = holds.iter().map(key).collect();
    if distinct.len() == holds.len() {
        return put_distinct(session, holds).await;
    }
    for hold in holds {
        put_distinct(session, std::slice::from_ref(hold)).await?;
    }
    Ok(())
}

async fn put_distinct(session: &mut Session, holds: &[Hold]) -> Result<(), StoreError> {
    let (new, existing): (Vec<&Hold>, Vec<&Hold>) = holds.iter().partition(|hold| hold.version <= 1);
    for asset in Asset::HELD {
        let expected: Vec<&Hold> = existing.iter().copied().filter(|hold| hold.asset == asset).collect();
        if expected.is_empty() {
            continue;
        }
        let orders: Vec<_> = expected.iter().map(|hold| (hold.tenant, hold.order)).collect();
        let found = lock(session, asset, &orders).await?;
        let versions: BTreeMap<Key, i64> = found.iter().map(|hold| (key(hold), hold.version)).collect();
        if expected.iter().any(|hold| versions.get(&key(hold)) != Some(&(hold.version - 1))) {
            return Err(session.conflict("asset_holds.version"));
        }
    }
    let insert = format!("INSERT INTO asset_holds ({COLUMNS})");
    let replace = session.dialect().or_replace(KEY, REPLACED);
    let rows = |holds: Vec<&Hold>| holds.into_iter().flat_map(row_of).collect();
    session.insert(&insert, 11, rows(existing), &replace).await?;
    // If a hold that should be new exists already, the primary key makes the insert fail.
    session.insert(&insert, 11, rows(new), "").await?;
    Ok(())
}
