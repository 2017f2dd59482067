use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{OrderId, Payment, PaymentId};

use handover_outbox::ports::{Changed, StoreError};

/// Reads payments.
#[handover_macros::wrappable]
#[async_trait]
pub trait PaymentQueries: Send {
    /// The payment with this id, in any tenant: reports of the gateway do not name a tenant.
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError>;

    /// The payment of the order in `PROCESSING`. There is at most one.
    async fn payment_in_processing(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Option<Payment>, StoreError>;

    /// Every payment of these orders, sorted by order and id.
    async fn payments_of(&mut self, tenant: TenantId, orders: &[OrderId])
    -> Result<Vec<Payment>, StoreError>;
}

/// Writes payments.
#[handover_macros::wrappable]
#[async_trait]
pub trait PaymentRepo: Send {
    /// Inserts a payment. An id in use, or a second payment in `PROCESSING` for the same order, MUST be a `Conflict`.
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write.
    /// A gateway transaction id that another payment already has, compared byte by byte, MUST be a `Conflict`.
    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError>;
}
