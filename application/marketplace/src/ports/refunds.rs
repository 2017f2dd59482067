use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{OrderId, Reference, Refund, RefundId, RefundStatus, SupersededAttempt};

use handover_outbox::ports::{Changed, StoreError};

/// Selects refunds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefundFilter {
    /// Only this tenant; `None`: every tenant.
    pub tenant: Option<TenantId>,
    /// Only refunds with this status.
    pub status: Option<RefundStatus>,
}

/// Numbers of the refunds whose money is still to be returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenRefunds {
    /// Refunds in `PROCESSING`.
    pub processing: u64,
    /// Refunds in `FAILED` that are no excess. Not counted are refunds of a capture whose money another refund has returned or
    /// is returning (one that is an excess returns it if the capture is `refund_due`), and refunds of an order that was
    /// shipped since, unless the capture is `refund_due`: then its money does not pay the order. A capture without a row
    /// is `refund_due` if its payment is.
    pub failed: u64,
    /// The earliest begin of the current attempt ([`attempt_begin`]) of those in `PROCESSING`.
    pub oldest_processing: Option<DateTime<Utc>>,
}

/// Begin of the current attempt of a refund in `PROCESSING`: its creation or, after a retry, the first of these requests of the
/// attempt. Until a retried refund has one, its last change counts, which is the retry.
pub fn attempt_begin(refund: &Refund, requests: &[SentRefundRequest]) -> DateTime<Utc> {
    if refund.attempt == 1 {
        return refund.create_time;
    }
    let of_attempt = requests.iter().filter(|it| (it.refund, it.attempt) == (refund.id, refund.attempt));
    of_attempt.map(|it| it.sent).min().unwrap_or(refund.update_time)
}

/// A request of a refund to the gateway. It is recorded before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRefundRequest {
    /// The refund, and its version after it had counted the request: together the key.
    pub refund: RefundId,
    pub version: i64,
    pub tenant: TenantId,
    /// The order; `None`: the refund is of an invoice.
    pub order: Option<OrderId>,
    /// Number of the attempt at the refund.
    pub attempt: u32,
    /// Number of the request within the attempt. A request that the end of a process interrupted has the number of the next one.
    pub number: u32,
    pub sent: DateTime<Utc>,
    /// Why the gateway did not accept it; `None`: it did, or the process ended before the response.
    pub error: Option<String>,
}

/// Reads refunds.
#[handover_macros::wrappable]
#[async_trait]
pub trait RefundQueries: Send {
    /// The refund with this id, in any tenant: reports of the gateway do not name a tenant.
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError>;

    /// The refund, in any tenant, and the number of its attempt with this reference, also if the attempt was superseded.
    async fn attempt_by_reference(
        &mut self,
        reference: Reference,
    ) -> Result<Option<(RefundId, u32)>, StoreError>;

    /// At most `limit` refunds that match, with an id below `before`, greatest id first.
    async fn refunds_page(
        &mut self,
        filter: RefundFilter,
        before: Option<RefundId>,
        limit: u32,
    ) -> Result<Vec<Refund>, StoreError>;

    /// Every refund of these orders, sorted by order and id.
    async fn refunds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Refund>, StoreError>;

    /// At most `limit` refunds of any tenant in `PROCESSING` with a `next_attempt_time` at or before `now`, earliest
    /// first. Only their ids, so that a row with an unreadable value delays no other refund.
    async fn refunds_due(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<RefundId>, StoreError>;

    /// At most `limit` requests of a refund, latest first.
    async fn refund_requests(
        &mut self,
        refund: RefundId,
        limit: u32,
    ) -> Result<Vec<SentRefundRequest>, StoreError>;

    /// Numbers of the refunds of all tenants whose money is still to be returned. The cost does not depend on the number of
    /// refunds that succeeded.
    async fn open_refunds(&mut self) -> Result<OpenRefunds, StoreError>;
}

/// Writes refunds.
#[handover_macros::wrappable]
#[async_trait]
pub trait RefundRepo: Send {
    /// Inserts a refund. An id or reference in use MUST be a `Conflict`. A refund of a capture that has another refund
    /// which is not `FAILED` MUST be a `Conflict`, so that at most the captured amount is refunded; excess refunds are
    /// neither checked nor counted.
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write. The same conflicts as at the insert
    /// apply. The reason MUST stay.
    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError>;

    /// Stores an attempt that a retry replaced. A reference in use MUST be a `Conflict`.
    async fn insert_superseded_attempt(&mut self, attempt: &SupersededAttempt) -> Result<(), StoreError>;

    /// Stores a request. A key in use MUST be a `Conflict`.
    async fn insert_refund_request(&mut self, request: &SentRefundRequest) -> Result<(), StoreError>;

    /// Sets the error of the request with this key; without such a request nothing changes.
    async fn set_refund_request_error(
        &mut self,
        refund: RefundId,
        version: i64,
        error: &str,
    ) -> Result<(), StoreError>;
}
