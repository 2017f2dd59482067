//! Repository of orders.

use std::collections::BTreeSet;

use crate::AmountFields;
use crate::session::{MarketSession, advance};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Fields, LookUp, MAX_ROWS, Row, Table, Value, padded, table, values};
use marketplace::ports::{DueOrder, END_OF_IDS, OrderQueries, OrderRepo, OrderSide};
use marketplace_domain::{
    Asset, CancelReason, CouponUse, Money, Order, OrderAssets, OrderId, OrderNo, OrderStatus, RefundId,
    Shipment, UserId,
};

table! {
    OrderTable("orders" by "id"), read row as Order, write order as &'a Order;
    insert { id: id("id" = order.id.get()), tenant: id("tenant_id" = order.tenant.get()) }
    update {
        order_no: (row.string("order_no").map(OrderNo::stored))("order_no" = order.order_no.as_str()),
        product: id("product_id" = order.product.get()),
        buyer: id("buyer_id" = order.buyer.get()),
        seller: id("seller_id" = order.seller.get()),
        status: named("status" = order.status.as_str()),
        cancel_reason: opt_named("cancel_reason" = order.cancel_reason.map(CancelReason::as_str)),
        total: money("total_minor" = order.total.minor()),
        payable: money("payable_minor" = order.payable.minor()),
        assets: (assets(row))(
            "coupon_id" = order.assets.coupon.map(|coupon| coupon.id.get()),
            "coupon_minor" = order.assets.amount(Asset::Coupon),
            "wallet_minor" = order.assets.wallet.minor(),
            "points" = order.assets.points.get()
        ),
        refund: opt_id("refund_id" = order.refund.map(RefundId::get)),
        shipment: (shipment(row))(
            "carrier" = order.shipment.as_ref().map(Shipment::carrier),
            "tracking_no" = order.shipment.as_ref().map(Shipment::tracking_no)
        ),
        version: int("version" = order.version),
        create_time: time("create_time" = order.create_time),
        pay_time: opt_time("pay_time" = order.pay_time),
        complete_time: opt_time("complete_time" = order.complete_time),
        update_time: time("update_time" = order.update_time),
    }
}

const COLUMNS: &str = OrderTable::COLUMNS;

fn assets(row: Fields<'_>) -> Result<OrderAssets, StoreError> {
    Ok(OrderAssets { coupon: coupon(row)?, wallet: row.money("wallet_minor")?, points: row.id("points")? })
}

fn coupon(row: Fields<'_>) -> Result<Option<CouponUse>, StoreError> {
    let discount = row.money("coupon_minor")?;
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
    let mut sql = format!(
        "SELECT tenant_id, id, update_time FROM orders {index} WHERE update_time >= ? AND update_time < ?"
    );
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

/// A page of the unpaid orders that were created at or before a time, oldest first.
pub(crate) fn overdue(
    dialect: &dyn Dialect,
    created_by: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId)>,
    most: u32,
) -> (String, Vec<Value>) {
    due_page((&dialect.index("idx_orders_pending"), "pending", "create_time"), created_by, after, most)
}

/// A page of the shipped orders that were shipped at or before a time, oldest first.
pub(crate) fn shipped(
    dialect: &dyn Dialect,
    shipped_by: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId)>,
    most: u32,
) -> (String, Vec<Value>) {
    due_page((&dialect.index("idx_orders_shipped"), "shipped", "update_time"), shipped_by, after, most)
}

/// A page of the orders in a status whose time is at or before `until`, oldest first.
fn due_page(
    (index, status, time): (&str, &str, &str),
    until: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId)>,
    most: u32,
) -> (String, Vec<Value>) {
    let mut sql =
        format!("SELECT tenant_id, id, {time} FROM orders {index} WHERE status = '{status}' AND {time} <= ?");
    let mut values = values![until];
    if let Some((position, id)) = after {
        // As in `changed_within`: the first condition starts the scan at the cursor.
        sql.push_str(&format!(" AND {time} >= ? AND ({time} > ? OR id > ?)"));
        values.extend(values![position, position, id.get()]);
    }
    sql.push_str(&format!(" ORDER BY {time}, id LIMIT ?"));
    values.push(most.into());
    (sql, values)
}

fn due(row: &Row, time: &'static str) -> Result<DueOrder, StoreError> {
    let row = OrderTable::fields(row);
    Ok(DueOrder { tenant: row.id("tenant_id")?, id: row.id("id")?, time: row.time(time)? })
}

/// The orders with these ids. An index on the tenant would read every order of the tenant.
pub(crate) fn by_id(dialect: &dyn Dialect, tenant: Option<TenantId>, ids: &[i64]) -> (String, Vec<Value>) {
    let (conditions, values) = match tenant {
        Some(tenant) => ("tenant_id = ?", values![tenant.get()]),
        None => ("1 = 1", Vec::new()),
    };
    dialect.look_up(LookUp {
        columns: COLUMNS,
        from: format!("orders {}", dialect.primary_key()),
        column: "id",
        keys: padded(ids).into_iter().map(Value::from).collect(),
        conditions: conditions.to_owned(),
        values,
        ..LookUp::default()
    })
}

#[async_trait]
impl OrderQueries for MarketSession {
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM orders WHERE id = ? AND tenant_id = ?");
        self.fetch_one(&sql, values![id.get(), tenant.get()])
            .await?
            .as_ref()
            .map(OrderTable::read)
            .transpose()
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
        self.fetch_one(&sql, values).await?.as_ref().map(OrderTable::read).transpose()
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
        let (party, index) = match side {
            OrderSide::Buyer => ("buyer_id", "idx_orders_buyer"),
            OrderSide::Seller => ("seller_id", "idx_orders_seller"),
        };
        // Another index begins with tenant, seller and status: without a status, its rows would have to be sorted.
        let index = if status.is_none() { self.dialect().index(index) } else { String::new() };
        let mut sql =
            format!("SELECT {COLUMNS} FROM orders {index} WHERE tenant_id = ? AND {party} = ? AND id < ?");
        let mut values = values![tenant.get(), user.get(), before.map_or(END_OF_IDS, OrderId::get)];
        if let Some(status) = status {
            sql.push_str(" AND status = ?");
            values.push(status.as_str().into());
        }
        sql.push_str(" ORDER BY id DESC LIMIT ?");
        values.push(most.into());
        self.fetch(&sql, values).await?.iter().map(OrderTable::read).collect()
    }

    async fn orders_by_id(
        &mut self,
        tenant: Option<TenantId>,
        ids: &[OrderId],
    ) -> Result<Vec<Order>, StoreError> {
        let ids: BTreeSet<i64> = ids.iter().map(|id| id.get()).collect();
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.into_iter().collect::<Vec<_>>().chunks(MAX_ROWS) {
            let (sql, values) = by_id(self.dialect(), tenant, ids);
            for row in &self.fetch(&sql, values).await? {
                found.push(OrderTable::read(row)?);
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
    ) -> Result<Vec<DueOrder>, StoreError> {
        let (sql, values) = changed_within(self.dialect(), tenant, since, until, after, most);
        self.fetch(&sql, values).await?.iter().map(|row| due(row, "update_time")).collect()
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        most: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        let (sql, values) = overdue(self.dialect(), created_by, after, most);
        self.fetch(&sql, values).await?.iter().map(|row| due(row, "create_time")).collect()
    }

    async fn orders_shipped(
        &mut self,
        shipped_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        most: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        let (sql, values) = shipped(self.dialect(), shipped_by, after, most);
        self.fetch(&sql, values).await?.iter().map(|row| due(row, "update_time")).collect()
    }
}

#[async_trait]
impl OrderRepo for MarketSession {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        self.insert_into::<OrderTable>(OrderTable::values(order), "").await
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        let updated = OrderTable::updated_values(after);
        advance::<OrderTable>(self, updated, after.tenant, after.id.get(), after.version - 1).await
    }
}
