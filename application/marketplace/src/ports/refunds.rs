use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{OrderId, Refund, RefundId};

use handover_outbox::ports::{Changed, StoreError};

/// Reads refunds.
#[handover_macros::wrappable]
#[async_trait]
pub trait RefundQueries: Send {
    /// The refund with this id, in any tenant: reports of the gateway do not name a tenant.
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError>;

    /// Every refund of these orders, sorted by order and id.
    async fn refunds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Refund>, StoreError>;

    /// At most `limit` refunds of any tenant in `PROCESSING` with a `next_attempt_time` at or before `now`, earliest
    /// first.
    async fn refunds_due(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<Refund>, StoreError>;
}

/// Writes refunds.
#[handover_macros::wrappable]
#[async_trait]
pub trait RefundRepo: Send {
    /// Inserts a refund. An id in use MUST be a `Conflict`. A refund of a payment that has another refund which is
    /// not `FAILED` MUST be a `Conflict`, so that at most the captured amount is refunded.
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write.
    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError>;
}
