//! Notifications to buyers and sellers.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Numbered, StoreError};
use handover_sql::{Row, values};
use marketplace::ports::{Notification, NotificationQueries, NotificationRepo, OrderSide};
use marketplace_domain::{OrderId, UserId};

const COLUMNS: &str = "tenant_id, user_id, side, order_id, aggregate_seq, old_status, new_status, changed_at, \
    event_id, create_time";

fn notification(row: &Row) -> Result<Numbered<Notification>, StoreError> {
    let row = row.of("notifications", "id");
    let effect = Notification {
        tenant: row.id("tenant_id")?,
        recipient: row.id("user_id")?,
        side: match row.text("side")? {
            "buyer" => OrderSide::Buyer,
            "seller" => OrderSide::Seller,
            other => return Err(row.corrupt("side", format!("{other:?} is unknown"))),
        },
        order: row.id("order_id")?,
        aggregate_seq: row.int("aggregate_seq")?,
        old_status: row.named("old_status")?,
        new_status: row.named("new_status")?,
        changed_at: row.time("changed_at")?,
        event_id: row.named("event_id")?,
        at: row.time("create_time")?,
    };
    Ok(Numbered { id: row.int("id")?, effect })
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
        of_orders.fetch(self, (tenant, orders), |row| Ok(notification(row)?.effect)).await
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
        self.fetch(&sql, values).await?.iter().map(notification).collect()
    }
}

#[async_trait]
impl NotificationRepo for MarketSession {
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        let rows = notifications
            .iter()
            .flat_map(|notification| {
                values![
                    notification.tenant.get(),
                    notification.recipient.get(),
                    notification.side.as_str(),
                    notification.order.get(),
                    notification.aggregate_seq,
                    notification.old_status.as_str(),
                    notification.new_status.as_str(),
                    notification.changed_at,
                    &notification.event_id,
                    notification.at,
                ]
            })
            .collect();
        self.insert(&format!("INSERT INTO notifications ({COLUMNS})"), 10, rows, "").await?;
        Ok(())
    }
}
