//! The credit of buyers: one row per event that counts, and the sum of them.
//!
//! **Invariant:** each step of an order counts once, as for every effect.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{CreditCounts, CreditStep, OrderId, UserId};

use handover_outbox::ports::StoreError;

/// One change of a buyer's credit: a row of its own, and one more of its kind in the sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditChange {
    /// The tenant.
    pub tenant: TenantId,
    /// Whose credit.
    pub buyer: UserId,
    /// By which order.
    pub order: OrderId,
    /// The event's place in the order of that order.
    pub aggregate_seq: i64,
    /// What counts.
    pub step: CreditStep,
    /// The event that caused it.
    pub event_id: EventId,
    /// When it was applied.
    pub at: DateTime<Utc>,
}

/// The credit of a buyer, as the events left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuyerCredit {
    /// What has been counted.
    pub counts: CreditCounts,
    /// The score of these counts.
    pub score: u32,
    /// The event that was counted last.
    pub last_event_id: EventId,
    /// When.
    pub update_time: DateTime<Utc>,
}

/// Reads credit.
#[handover_macros::wrappable]
#[async_trait]
pub trait CreditQueries: Send {
    /// The credit of a buyer; `None` while nothing was counted.
    async fn credit_of(&mut self, tenant: TenantId, buyer: UserId)
    -> Result<Option<BuyerCredit>, StoreError>;

    /// Every change by this order, in the order in which they were applied.
    async fn credit_changes(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<CreditChange>, StoreError>;
}

/// Writes credit.
#[handover_macros::wrappable]
#[async_trait]
pub trait CreditRepo: Send {
    /// Adds changes in the order given, counts each for its buyer, and stores the score that
    /// [`CreditCounts::score`] says follows. Units that count for one buyer at the same time MUST lose none. A second change of
    /// the same order and step MUST be a `Conflict`.
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError>;
}
