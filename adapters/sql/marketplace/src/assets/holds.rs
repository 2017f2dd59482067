//! Holds of assets for orders.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, LookUp, MAX_ROWS, Row, Session, Table, Value, padded, table, values};
use marketplace::ports::FrozenHold;
use marketplace_domain::{Asset, CouponId, Hold, OrderId, UserId};

use crate::of_orders::OfOrders;

table! {
    HoldTable("asset_holds" by "order_id"), read row as Hold, write hold as &'a Hold;
    insert {
        tenant: id("tenant_id" = hold.tenant.get()),
        order: id("order_id" = hold.order.get()),
        asset: named("asset" = hold.asset.as_str()),
    }
    update {
        user: id("user_id" = hold.user.get()),
        amount: int("amount" = hold.amount),
        coupon: opt_id("coupon_id" = hold.coupon.map(CouponId::get)),
        status: named("status" = hold.status.as_str()),
        reverted: flag("reverted" = hold.reverted),
        version: int("version" = hold.version),
        create_time: time("create_time" = hold.create_time),
        update_time: time("update_time" = hold.update_time),
    }
}

const COLUMNS: &str = HoldTable::COLUMNS;

type Key = (TenantId, OrderId, Asset);

fn key(hold: &Hold) -> Key {
    (hold.tenant, hold.order, hold.asset)
}

pub(super) async fn of_orders(
    session: &mut Session,
    tenant: TenantId,
    orders: &[OrderId],
) -> Result<Vec<Hold>, StoreError> {
    let columns = format!("{COLUMNS}, asset_no");
    let of_orders = OfOrders { table: "asset_holds", columns: &columns, sequence: "asset_no" };
    of_orders.fetch(session, (tenant, orders), HoldTable::read).await
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
    session.fetch(&sql, values).await?.iter().map(HoldTable::read).collect()
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
    let mut sql = format!(
        "SELECT tenant_id, order_id, asset, create_time FROM asset_holds {index} WHERE status = 'FROZEN' \
         AND create_time <= ?"
    );
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
) -> Result<Vec<FrozenHold>, StoreError> {
    let (sql, values) = pending(session.dialect(), created_by, after, most);
    session.fetch(&sql, values).await?.iter().map(frozen_hold).collect()
}

fn frozen_hold(row: &Row) -> Result<FrozenHold, StoreError> {
    let row = HoldTable::fields(row);
    Ok(FrozenHold {
        tenant: row.id("tenant_id")?,
        order: row.id("order_id")?,
        asset: row.named("asset")?,
        create_time: row.time("create_time")?,
    })
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
                holds.push(HoldTable::read(row)?);
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
    session.insert_or_update::<HoldTable>(HoldTable::rows(existing)).await?;
    // If a hold that should be new exists already, the primary key makes the insert fail.
    session.insert_into::<HoldTable>(HoldTable::rows(new), "").await
}
