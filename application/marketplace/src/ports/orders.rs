use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{Order, OrderId, OrderStatus, UserId};

use handover_outbox::ports::{Changed, StoreError};

/// Side of a user in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderSide {
    Buyer,
    Seller,
}

impl OrderSide {
    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            OrderSide::Buyer => "buyer",
            OrderSide::Seller => "seller",
        }
    }
}

/// An order that a job or a reconciliation has to process. Only its key and its position, so that a row with an unreadable
/// value delays no other order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueOrder {
    pub tenant: TenantId,
    pub id: OrderId,
    /// The time by which the query sorts.
    pub time: DateTime<Utc>,
}

impl DueOrder {
    /// Sort key of the query.
    pub const fn position(&self) -> (DateTime<Utc>, OrderId) {
        (self.time, self.id)
    }
}

/// Reads orders.
#[handover_macros::wrappable]
#[async_trait]
pub trait OrderQueries: Send {
    /// The order, if it belongs to this tenant.
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError>;

    /// The order, if it belongs to this tenant and the user is its buyer or seller.
    async fn order_of_party(
        &mut self,
        tenant: TenantId,
        id: OrderId,
        user: UserId,
    ) -> Result<Option<Order>, StoreError>;

    /// At most `limit` orders of a user as buyer or seller (`side`), with this status (`None`: with any) and an id
    /// below `before`, greatest id first.
    async fn orders_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError>;

    /// The orders with these ids that belong to this tenant (`None`: to any), in any sequence.
    async fn orders_by_id(
        &mut self,
        tenant: Option<TenantId>,
        ids: &[OrderId],
    ) -> Result<Vec<Order>, StoreError>;

    /// At most `limit` orders of a tenant (`None`: of all) that changed at or after `since` and before `until`, sorted by
    /// (`update_time`, id), starting after `after`.
    async fn orders_changed(
        &mut self,
        tenant: Option<TenantId>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError>;

    /// At most `limit` pending orders of any tenant created at or before `created_by`, sorted by (`create_time`, id),
    /// starting after `after`.
    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError>;

    /// At most `limit` shipped orders of any tenant that were shipped (`update_time`) at or before `shipped_by`, sorted by
    /// (`update_time`, id), starting after `after`.
    async fn orders_shipped(
        &mut self,
        shipped_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError>;
}

/// Writes orders.
#[handover_macros::wrappable]
#[async_trait]
pub trait OrderRepo: Send {
    /// Inserts an order. An id in use MUST be a `Conflict`.
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write.
    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError>;
}
