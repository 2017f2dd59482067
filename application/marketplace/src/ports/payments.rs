//! Payments.

use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{OrderId, Payment, PaymentId};

use handover_outbox::ports::{Changed, StoreError};

/// Reads payments.
#[handover_macros::wrappable]
#[async_trait]
pub trait PaymentQueries: Send {
    /// The payment, whichever tenant has it: the gateway knows no tenants.
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError>;

    /// The order's payment in `PROCESSING`, of which there is at most one.
    async fn payment_in_processing(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Option<Payment>, StoreError>;

    /// Every payment of the order, in order of ids.
    async fn payments_of(&mut self, tenant: TenantId, order: OrderId) -> Result<Vec<Payment>, StoreError>;
}

/// Writes payments.
#[handover_macros::wrappable]
#[async_trait]
pub trait PaymentRepo: Send {
    /// Adds a payment. A taken id, or a second one in `PROCESSING` for its order, MUST be a `Conflict`.
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError>;

    /// Replaces the row whose version is `after.version - 1`: one conditional write.
    /// A gateway transaction that another payment has MUST be a `Conflict`, compared byte by byte.
    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError>;
}
