use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{Capture, OrderId, Payment, PaymentId, PaymentStatus, Reference};

use handover_outbox::ports::{Changed, StoreError};

/// Selects payments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Only this tenant; `None`: every tenant.
    pub tenant: Option<TenantId>,
    /// Only payments with this status.
    pub status: Option<PaymentStatus>,
    /// Only payments with an id above this one: bounds the rows that are read, because no index supports the status.
    pub above_id: Option<i64>,
}

/// Reads payments.
#[handover_macros::wrappable]
#[async_trait]
pub trait PaymentQueries: Send {
    /// The payment with this id, in any tenant: reports of the gateway do not name a tenant.
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError>;

    /// The payment with this reference, in any tenant.
    async fn payment_by_reference(&mut self, reference: Reference) -> Result<Option<Payment>, StoreError>;

    /// The payment that was settled last by this gateway transaction, in any tenant. Ids are compared byte by byte.
    async fn payment_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Payment>, StoreError>;

    /// The payment of the order in `PROCESSING`. There is at most one.
    async fn payment_in_processing(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Option<Payment>, StoreError>;

    /// At most `limit` payments that match, with an id below `before`, greatest id first.
    async fn payments_page(
        &mut self,
        filter: PaymentFilter,
        before: Option<PaymentId>,
        limit: u32,
    ) -> Result<Vec<Payment>, StoreError>;

    /// Every payment of these orders, sorted by order and id.
    async fn payments_of(&mut self, tenant: TenantId, orders: &[OrderId])
    -> Result<Vec<Payment>, StoreError>;

    /// Every stored capture of these orders, sorted by order, payment and number.
    async fn captures_of(&mut self, tenant: TenantId, orders: &[OrderId])
    -> Result<Vec<Capture>, StoreError>;

    /// The stored capture by this gateway transaction, in any tenant. Ids are compared byte by byte.
    async fn capture_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Capture>, StoreError>;
}

/// Writes payments.
#[handover_macros::wrappable]
#[async_trait]
pub trait PaymentRepo: Send {
    /// Inserts a payment. An id or reference in use, or a second payment in `PROCESSING` for the same order or invoice, MUST be a
    /// `Conflict`.
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write.
    /// A gateway transaction id that another payment already has, compared byte by byte, MUST be a `Conflict`.
    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError>;

    /// Inserts a capture. A number of the same payment in use, or a gateway transaction id of another capture (compared
    /// byte by byte), MUST be a `Conflict`.
    async fn insert_capture(&mut self, capture: &Capture) -> Result<(), StoreError>;

    /// Replaces `refund_due` and `in_suspense` of a stored capture. The caller MUST have advanced the refund of the capture
    /// in the same unit of work, which excludes concurrent changes.
    async fn update_capture(&mut self, capture: &Capture) -> Result<Changed, StoreError>;
}
