//! Orders.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{Order, OrderId, OrderStatus, UserId};

use handover_outbox::ports::{Changed, StoreError};

/// Which of a user's orders: those bought or those sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderSide {
    /// Bought.
    Buyer,
    /// Sold.
    Seller,
}

impl OrderSide {
    /// The name, as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            OrderSide::Buyer => "buyer",
            OrderSide::Seller => "seller",
        }
    }
}

/// Reads orders.
#[handover_macros::wrappable]
#[async_trait]
pub trait OrderQueries: Send {
    /// The order, if this tenant has it.
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError>;

    /// The order, if this tenant has it and the user is its buyer or seller.
    async fn order_of_party(
        &mut self,
        tenant: TenantId,
        id: OrderId,
        user: UserId,
    ) -> Result<Option<Order>, StoreError>;

    /// At most `limit` orders of a user with an id below `before`, greatest id first.
    async fn orders_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError>;

    /// Those of these orders that this tenant has, in any order.
    async fn orders_by_id(&mut self, tenant: TenantId, ids: &[OrderId]) -> Result<Vec<Order>, StoreError>;

    /// At most `limit` orders of a tenant (`None`: of all) that changed at or after `since` and before `until`, in the
    /// order of (`update_time`, id), those after `after`.
    async fn orders_changed(
        &mut self,
        tenant: Option<TenantId>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError>;

    /// At most `limit` pending orders of any tenant created at or before then, oldest first.
    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<(TenantId, OrderId)>, StoreError>;
}

/// Writes orders.
#[handover_macros::wrappable]
#[async_trait]
pub trait OrderRepo: Send {
    /// Adds an order. A taken id MUST be a `Conflict`.
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError>;

    /// Replaces the row whose version is `after.version - 1`: one conditional write.
    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError>;
}
