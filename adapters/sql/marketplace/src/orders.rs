//! Repository of orders.

use std::collections::BTreeSet;

use crate::money;
use crate::session::MarketSession;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Fields, LookUp, MAX_ROWS, Row, Value, padded, values};
use marketplace::ports::{END_OF_IDS, OrderQueries, OrderRepo, OrderSide};
use marketplace_domain::{
    Asset, CancelReason, CouponUse, Money, Order, OrderAssets, OrderId, OrderNo, OrderStatus, RefundId,
    Shipment, UserId,
};

const COLUMNS: &str = "id, order_no, tenant_id, product_id, buyer_id, seller_id, status, cancel_reason, total_minor, \
                       payable_minor, coupon_id, coupon_minor, wallet_minor, points, refund_id, carrier, tracking_no, \
                       version, create_time, pay_time, update_time";

/// Unpaid orders that were created at or before a time, oldest first.
pub(crate) const OVERDUE: &str = "SELECT tenant_id, id FROM orders WHERE status = 'pending' AND create_time <= ? \
                                  ORDER BY create_time, id LIMIT ?";

fn order(row: &Row) -> Result<Order, StoreError> {
    let row = row.of("orders", "id");
    Ok(Order {
        id: row.id("id")?,
        order_no: OrderNo::stored(row.string("order_no")?),
        tenant: row.id("tenant_id")?,
        product: row.id("product_id")?,
        buyer: row.id("buyer_id")?,
        seller: row.id("seller_id")?,
        status: row.named("status")?,
        cancel_reason: row.opt_named::<CancelReason>("cancel_reason")?,
        total: money(&row, "total_minor")?,
        assets: OrderAssets {
            coupon: coupon(row)?,
            wallet: money(&row, "wallet_minor")?,
            points: row.id("points")?,
        },
        payable: money(&row, "payable_minor")?,
        refund: row.opt_id("refund_id")?,
        shipment: shipment(row)?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        pay_time: row.opt_time("pay_time")?,
        update_time: row.time("update_time")?,
    })
}

fn coupon(row: Fields<'_>) -> Result<Option<CouponUse>, StoreError> {
    let discount = money(&row, "coupon_minor")?;
    match row.opt_id("coupon_id")? {
        Some(id) => Ok(Some(CouponUse { id, discount })),
        None if discount == Money::ZERO => Ok(None),
        None => Err(row.corrupt("coupon_id", "a discount without a coupon")),
    }
}

fn shipment(row: Fields<'_>) -> Result<Option<Shipment>, StoreError> {
    match (row.opt_string("carrier")?, row.opt_string("tracking_no")?) {
        (None, None) => Ok(None),
        (Some(carrier), Some(tracking_no)) => {
            Shipment::new(carrier, tracking_no).map(Some).map_err(|(part, error)| {
                row.corrupt(if part == "carrier" { "carrier" } else { "tracking_no" }, error)
            })
        }
        (Some(_), None) => Err(row.corrupt("tracking_no", "a carrier without a tracking number")),
        (None, Some(_)) => Err(row.corrupt("carrier", "a tracking number without a carrier")),
    }
}

/// The values of the [`COLUMNS`] that follow id, order number and tenant.
fn state_values(order: &Order) -> Vec<Value> {
    values![
        order.product.get(),
        order.buyer.get(),
        order.seller.get(),
        order.status.as_str(),
        order.cancel_reason.map(CancelReason::as_str),
        order.total.minor(),
        order.payable.minor(),
        order.assets.coupon.map(|coupon| coupon.id.get()),
        order.assets.amount(Asset::Coupon),
        order.assets.wallet.minor(),
        order.assets.points.get(),
        order.refund.map(RefundId::get),
        order.shipment.as_ref().map(Shipment::carrier),
        order.shipment.as_ref().map(Shipment::tracking_no),
        order.version,
        order.create_time,
        order.pay_time,
        order.update_time,
    ]
}

/// A page of the orders that changed in a time range.
pub(crate) fn changed_within(
    dialect: &dyn Dialect,
    tenant: Option<TenantId>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId)>,
    most: u32,
) -> (String, Vec<Value>) {
    // `update_time >= ?` starts the scan at the time of the cursor: not every engine derives this start from the
    // condition that compares both columns with the cursor.
    let from = after.map_or(since, |(changed, _)| since.max(changed));
    let index = dialect.index("idx_orders_updated");
    let mut sql = format!("SELECT {COLUMNS} FROM orders {index} WHERE update_time >= ? AND update_time < ?");
    let mut values = values![from, until];
    if let Some((changed, id)) = after {
        sql.push_str(" AND (update_time > ? OR id > ?)");
        values.extend(values![changed, id.get()]);
    }
    if let Some(tenant) = tenant {
        sql.push_str(" AND tenant_id = ?");
        values.push(tenant.get().into());
    }
    sql.push_str(" ORDER BY update_time, id LIMIT ?");
    values.push(most.into());
    (sql, values)
}

#[async_trait]
impl OrderQueries for MarketSession {
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM orders WHERE id = ? AND tenant_id = ?");
        self.fetch_one(&sql, values![id.get(), tenant.get()]).await?.as_ref().map(order).transpose()
    }

    async fn order_of_party(
        &mut self,
        tenant: TenantId,
        id: OrderId,
        user: UserId,
    ) -> Result<Option<Order>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM orders WHERE id = ? AND tenant_id = ? AND (buyer_id = ? OR seller_id = ?)"
        );
        let values = values![id.get(), tenant.get(), user.get(), user.get()];
        self.fetch_one(&sql, values).await?.as_ref().map(order).transpose()
    }

    async fn orders_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<OrderId>,
        most: u32,
    ) -> Result<Vec<Order>, StoreError> {
        let party = match side {
            OrderSide::Buyer => "buyer_id",
            OrderSide::Seller => "seller_id",
        };
        let mut sql = format!("SELECT {COLUMNS} FROM orders WHERE tenant_id = ? AND {party} = ? AND id < ?");
        let mut values = values![tenant.get(), user.get(), before.map_or(END_OF_IDS, OrderId::get)];
        if let Some(status) = status {
            sql.push_str(" AND status = ?");
            values.push(status.as_str().into());
        }
        sql.push_str(" ORDER BY id DESC LIMIT ?");
        values.push(most.into());
        self.fetch(&sql, values).await?.iter().map(order).collect()
    }

    async fn orders_by_id(&mut self, tenant: TenantId, ids: &[OrderId]) -> Result<Vec<Order>, StoreError> {
        let ids: BTreeSet<i64> = ids.iter().map(|id| id.get()).collect();
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.into_iter().collect::<Vec<_>>().chunks(MAX_ROWS) {
            let ids = padded(ids);
            let (sql, values) = self.dialect().look_up(LookUp {
                columns: COLUMNS,
                from: "orders".to_owned(),
                column: "id",
                keys: ids.into_iter().map(Value::from).collect(),
                conditions: "tenant_id = ?".to_owned(),
                values: values![tenant.get()],
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                found.push(order(row)?);
            }
        }
        Ok(found)
    }

    async fn orders_changed(
        &mut self,
        tenant: Option<TenantId>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        most: u32,
    ) -> Result<Vec<Order>, StoreError> {
        let (sql, values) = changed_within(self.dialect(), tenant, since, until, after, most);
        self.fetch(&sql, values).await?.iter().map(order).collect()
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        most: u32,
    ) -> Result<Vec<(TenantId, OrderId)>, StoreError> {
        let rows = self.fetch(OVERDUE, values![created_by, most]).await?;
        rows.iter()
            .map(|row| {
                let row = row.of("orders", "id");
                Ok((row.id("tenant_id")?, row.id("id")?))
            })
            .collect()
    }
}

#[async_trait]
impl OrderRepo for MarketSession {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        let values =
            [values![order.id.get(), order.order_no.as_str(), order.tenant.get()], state_values(order)]
                .concat();
        self.insert(&format!("INSERT INTO orders ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        let sql = "UPDATE orders SET order_no = ?, product_id = ?, buyer_id = ?, seller_id = ?, status = ?, \
                   cancel_reason = ?, total_minor = ?, payable_minor = ?, coupon_id = ?, coupon_minor = ?, \
                   wallet_minor = ?, points = ?, refund_id = ?, carrier = ?, tracking_no = ?, version = ?, \
                   create_time = ?, pay_time = ?, update_time = ? WHERE id = ? AND tenant_id = ? AND version = ?";
        let values = [
            values![after.order_no.as_str()],
            state_values(after),
            values![after.id.get(), after.tenant.get(), after.version - 1],
        ]
        .concat();
        Ok(Changed::of(self.execute(sql, values).await?))
    }
}
