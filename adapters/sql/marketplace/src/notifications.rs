//! Notifications to buyers and sellers.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Numbered, StoreError};
use handover_sql::{Fields, Table, table, values};
use marketplace::ports::{Notification, NotificationQueries, NotificationRepo, OrderSide};
use marketplace_domain::{OrderId, UserId};

table! {
    NotificationTable("notifications" by "id"),
    read row as Notification, write notification as &'a Notification;
    insert {
        tenant: id("tenant_id" = notification.tenant.get()),
        recipient: id("user_id" = notification.recipient.get()),
        side: (side(row))("side" = notification.side.as_str()),
        order: id("order_id" = notification.order.get()),
        aggregate_seq: int("aggregate_seq" = notification.aggregate_seq),
        old_status: named("old_status" = notification.old_status.as_str()),
        new_status: named("new_status" = notification.new_status.as_str()),
        changed_at: time("changed_at" = notification.changed_at),
        event_id: named("event_id" = &notification.event_id),
        at: time("create_time" = notification.at),
    }
}

const COLUMNS: &str = NotificationTable::COLUMNS;

fn side(row: Fields<'_>) -> Result<OrderSide, StoreError> {
    match row.text("side")? {
        "buyer" => Ok(OrderSide::Buyer),
        "seller" => Ok(OrderSide::Seller),
        other => Err(row.corrupt("side", format!("{other:?} is unknown"))),
    }
}

#[async_trait]
impl NotificationQueries for MarketSession {
    async fn notifications_about(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Notification>, StoreError> {
        let columns = format!("id, {COLUMNS}");
        let of_orders = OfOrders { table: "notifications", columns: &columns, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), NotificationTable::read).await
    }

    async fn notifications_page(
        &mut self,
        tenant: TenantId,
        recipient: UserId,
        before: Option<i64>,
        limit_to: u32,
    ) -> Result<Vec<Numbered<Notification>>, StoreError> {
        let sql = format!(
            "SELECT id, {COLUMNS} FROM notifications WHERE tenant_id = ? AND user_id = ? AND id < ? \
             ORDER BY id DESC LIMIT ?"
        );
        let before = before.unwrap_or(i64::MAX);
        let values = values![tenant.get(), recipient.get(), before, limit_to];
        self.fetch(&sql, values).await?.iter().map(NotificationTable::numbered).collect()
    }
}

#[async_trait]
impl NotificationRepo for MarketSession {
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        self.insert_into::<NotificationTable>(NotificationTable::rows(notifications), "").await
    }
}
