//! Refunds.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{OrderId, Refund, RefundId};

use handover_outbox::ports::{Changed, StoreError};

/// Reads refunds.
#[handover_macros::wrappable]
#[async_trait]
pub trait RefundQueries: Send {
    /// The refund, whichever tenant has it: the gateway knows no tenants.
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError>;

    /// Every refund of the order, in order of ids.
    async fn refunds_of(&mut self, tenant: TenantId, order: OrderId) -> Result<Vec<Refund>, StoreError>;

    /// At most `limit` refunds of any tenant in `PROCESSING` whose `next_attempt_time` is at or before `now`, earliest
    /// first.
    async fn refunds_due(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<Refund>, StoreError>;
}

/// Writes refunds.
#[handover_macros::wrappable]
#[async_trait]
pub trait RefundRepo: Send {
    /// Adds a refund. A taken id MUST be a `Conflict`, and so MUST be a second one of a payment that is not `FAILED`: no
    /// more goes back than came.
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError>;

    /// Replaces the row whose version is `after.version - 1`: one conditional write.
    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError>;
}
