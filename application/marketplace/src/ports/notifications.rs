//! Notifications of buyers and sellers.
//!
//! **Invariant:** each party is notified of each status of an order only once.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{OrderId, OrderStatus, UserId};

use super::OrderSide;
use handover_outbox::ports::{Numbered, StoreError};

/// Notification to one party about a status change of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    pub tenant: TenantId,
    pub recipient: UserId,
    /// Side of the recipient.
    pub side: OrderSide,
    pub order: OrderId,
    /// `aggregate_seq` of the event.
    pub aggregate_seq: i64,
    pub old_status: OrderStatus,
    pub new_status: OrderStatus,
    /// Time of the status change.
    pub changed_at: DateTime<Utc>,
    pub event_id: EventId,
    /// Time at which the event was applied.
    pub at: DateTime<Utc>,
}

/// Reads notifications.
#[handover_macros::wrappable]
#[async_trait]
pub trait NotificationQueries: Send {
    /// Every notification about these orders, sorted by order; those of one order in the sequence in which they were
    /// written.
    async fn notifications_about(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Notification>, StoreError>;

    /// At most `limit` notifications of this user, with an id below `before`, greatest id first.
    async fn notifications_page(
        &mut self,
        tenant: TenantId,
        recipient: UserId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Notification>>, StoreError>;
}

/// Writes notifications.
#[handover_macros::wrappable]
#[async_trait]
pub trait NotificationRepo: Send {
    /// Inserts notifications in the given sequence. A second notification with the same order, status and side MUST be
    /// a `Conflict`.
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError>;
}
