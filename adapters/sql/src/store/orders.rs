//! Orders.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::{Changed, OrderQueries, OrderRepo, OrderSide, StoreError};
use handover_domain::{CancelReason, Order, OrderId, OrderNo, OrderStatus, Shipment, TenantId, UserId};

use super::{changed, limit};
use crate::row::{Fields, Row};
use crate::session::Session;
use crate::value::values;

const COLUMNS: &str = "id, order_no, tenant_id, product_id, buyer_id, seller_id, status, cancel_reason, total_minor, \
                       payable_minor, carrier, tracking_no, version, create_time, pay_time, update_time";

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
        cancel_reason: match row.opt_text("cancel_reason")? {
            Some(_) => Some(row.named::<CancelReason>("cancel_reason")?),
            None => None,
        },
        total: row.money("total_minor")?,
        payable: row.money("payable_minor")?,
        shipment: shipment(row)?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        pay_time: row.opt_time("pay_time")?,
        update_time: row.time("update_time")?,
    })
}

fn shipment(row: Fields<'_>) -> Result<Option<Shipment>, StoreError> {
    match (row.opt_string("carrier")?, row.opt_string("tracking_no")?) {
        (None, None) => Ok(None),
        (Some(carrier), Some(tracking_no)) => {
            Shipment::new(carrier, tracking_no).map(Some).map_err(|(part, error)| {
                row.corrupt(if part == "carrier" { "carrier" } else { "tracking_no" }, error)
            })
        }
        (Some(_), None) => Err(row.corrupt("tracking_no", "is NULL beside a carrier")),
        (None, Some(_)) => Err(row.corrupt("carrier", "is NULL beside a tracking number")),
    }
}

#[async_trait]
impl OrderQueries for Session {
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
        let mut values = values![tenant.get(), user.get(), before.map_or(i64::MAX, OrderId::get)];
        if let Some(status) = status {
            sql.push_str(" AND status = ?");
            values.push(status.as_str().into());
        }
        sql.push_str(" ORDER BY id DESC LIMIT ?");
        values.push(limit(most).into());
        self.fetch(&sql, values).await?.iter().map(order).collect()
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        most: u32,
    ) -> Result<Vec<(TenantId, OrderId)>, StoreError> {
        let sql = "SELECT tenant_id, id FROM orders WHERE status = 'pending' AND create_time <= ? \
                   ORDER BY create_time, id LIMIT ?";
        let rows = self.fetch(sql, values![created_by, limit(most)]).await?;
        rows.iter()
            .map(|row| {
                let row = row.of("orders", "id");
                Ok((row.id("tenant_id")?, row.id("id")?))
            })
            .collect()
    }
}

#[async_trait]
impl OrderRepo for Session {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        let values = values![
            order.id.get(),
            order.order_no.as_str(),
            order.tenant.get(),
            order.product.get(),
            order.buyer.get(),
            order.seller.get(),
            order.status.as_str(),
            order.cancel_reason.map(CancelReason::as_str),
            order.total,
            order.payable,
            order.shipment.as_ref().map(Shipment::carrier),
            order.shipment.as_ref().map(Shipment::tracking_no),
            order.version,
            order.create_time,
            order.pay_time,
            order.update_time,
        ];
        self.insert(&format!("INSERT INTO orders ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        let sql = "UPDATE orders SET order_no = ?, product_id = ?, buyer_id = ?, seller_id = ?, status = ?, \
                   cancel_reason = ?, total_minor = ?, payable_minor = ?, carrier = ?, tracking_no = ?, version = ?, \
                   create_time = ?, pay_time = ?, update_time = ? WHERE id = ? AND tenant_id = ? AND version = ?";
        let values = values![
            after.order_no.as_str(),
            after.product.get(),
            after.buyer.get(),
            after.seller.get(),
            after.status.as_str(),
            after.cancel_reason.map(CancelReason::as_str),
            after.total,
            after.payable,
            after.shipment.as_ref().map(Shipment::carrier),
            after.shipment.as_ref().map(Shipment::tracking_no),
            after.version,
            after.create_time,
            after.pay_time,
            after.update_time,
            after.id.get(),
            after.tenant.get(),
            after.version - 1,
        ];
        Ok(changed(self.execute(sql, values).await?))
    }
}
