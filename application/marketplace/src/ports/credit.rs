//! Buyer credit: one row per counted event, and the counts per buyer.
//!
//! **Invariant:** each outcome of an order (completed, cancelled) is counted once.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{CreditCounts, CreditOutcome, OrderId, UserId};

use handover_outbox::ports::StoreError;

/// One change of a buyer's credit: adds a row and increments the count of the order outcome `step`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditChange {
    pub tenant: TenantId,
    pub buyer: UserId,
    pub order: OrderId,
    /// `aggregate_seq` of the event.
    pub aggregate_seq: i64,
    pub step: CreditOutcome,
    pub event_id: EventId,
    /// Time at which the event was applied.
    pub at: DateTime<Utc>,
}

/// Current credit of a buyer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuyerCredit {
    pub counts: CreditCounts,
    /// Score computed from `counts`.
    pub score: u32,
    pub last_event_id: EventId,
    pub update_time: DateTime<Utc>,
}

/// Reads credit.
#[handover_macros::wrappable]
#[async_trait]
pub trait CreditQueries: Send {
    /// Credit of a buyer; `None` before the first counted event.
    async fn credit_of(&mut self, tenant: TenantId, buyer: UserId)
    -> Result<Option<BuyerCredit>, StoreError>;

    /// Every change caused by these orders, sorted by order; those of one order in the sequence in which they were applied.
    async fn credit_changes(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<CreditChange>, StoreError>;
}

/// Writes credit.
#[handover_macros::wrappable]
#[async_trait]
pub trait CreditRepo: Send {
    /// Inserts changes in the given sequence, increments the counts of their buyers, and stores the score from
    /// [`CreditCounts::score`]. Concurrent units of work for the same buyer MUST NOT lose a count. A second change with the
    /// same order and step MUST be a `Conflict`.
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError>;
}
