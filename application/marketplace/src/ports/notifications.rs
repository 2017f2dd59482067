//! What buyers and sellers are told.
//!
//! **Invariant:** each party is notified once of each status of an order, as for every effect.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{OrderId, OrderStatus, UserId};

use super::OrderSide;
use handover_outbox::ports::{Numbered, StoreError};

/// One party of an order is told that it has another status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The tenant.
    pub tenant: TenantId,
    /// Who is told.
    pub recipient: UserId,
    /// As which party.
    pub side: OrderSide,
    /// About which order.
    pub order: OrderId,
    /// The event's place in the order of that order.
    pub aggregate_seq: i64,
    /// The status before.
    pub old_status: OrderStatus,
    /// The status since.
    pub new_status: OrderStatus,
    /// When the status changed.
    pub changed_at: DateTime<Utc>,
    /// The event that caused it.
    pub event_id: EventId,
    /// When it was written.
    pub at: DateTime<Utc>,
}

/// Reads notifications.
#[handover_macros::wrappable]
#[async_trait]
pub trait NotificationQueries: Send {
    /// Every notification about this order, in the order in which they were written.
    async fn notifications_about(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<Notification>, StoreError>;

    /// What this user was told, numbered below `before`, greatest number first.
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
    /// Adds notifications in the order given. A second one of the same order, status and side MUST be a `Conflict`.
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError>;
}
