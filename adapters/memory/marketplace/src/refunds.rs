//! Refunds.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_memory::store::tables::Row;
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{RefundQueries, RefundRepo};
use marketplace_domain::{OrderId, PaymentId, Refund, RefundId, RefundStatus};

use crate::of_orders::of_orders;
use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct RefundIndex {
    by_order: BTreeMap<(TenantId, OrderId), BTreeSet<RefundId>>,
    /// The refund of each payment that is in progress or succeeded; a payment has at most one.
    not_failed: BTreeMap<PaymentId, RefundId>,
    due: BTreeSet<(DateTime<Utc>, RefundId)>,
}

impl Row<Market> for Refund {
    type Key = RefundId;
    type Index = RefundIndex;

    fn key(&self) -> RefundId {
        self.id
    }

    fn enter(&self, index: &mut RefundIndex) {
        index.by_order.entry((self.tenant, self.order)).or_default().insert(self.id);
        if self.status != RefundStatus::Failed {
            index.not_failed.insert(self.payment, self.id);
        }
        if self.status == RefundStatus::Processing {
            index.due.extend(self.next_attempt_time.map(|due| (due, self.id)));
        }
    }

    /// Removes an index entry only if it names this row: another row of the same commit may have replaced the entry.
    fn leave(&self, index: &mut RefundIndex) {
        if let Some(ids) = index.by_order.get_mut(&(self.tenant, self.order)) {
            ids.remove(&self.id);
        }
        if index.not_failed.get(&self.payment) == Some(&self.id) {
            index.not_failed.remove(&self.payment);
        }
        if let Some(due) = self.next_attempt_time {
            index.due.remove(&(due, self.id));
        }
    }
}

#[async_trait]
impl RefundQueries for MarketUnit {
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError> {
        self.read(|statement| statement.refunds().get(&id).cloned()).await
    }

    async fn refunds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Refund>, StoreError> {
        self.read(|statement| {
            let refunds = statement.refunds();
            of_orders(tenant, orders, |order| {
                let of_order = refunds.select(|table| {
                    let ids = table.index.by_order.get(&order).into_iter().flatten();
                    ids.filter_map(|id| Some((*id, table.get(id)?)))
                });
                of_order.cloned().collect()
            })
        })
        .await
    }

    async fn refunds_due(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<Refund>, StoreError> {
        self.read(|statement| {
            let refunds = statement.refunds();
            let earliest_first = refunds.select(|table| {
                let due = table.index.due.iter().take_while(move |(due, _)| *due <= now);
                due.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
            });
            earliest_first.take(limited(limit)).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl RefundRepo for MarketUnit {
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError> {
        self.write(locks(refund), |statement| {
            if statement.refunds().get(&refund.id).is_some() {
                return Err(conflict(format!("refunds.id {}", refund.id)));
            }
            check_unique(statement, refund)?;
            statement.own.refunds.put(refund.clone());
            Ok(())
        })
        .await
    }

    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError> {
        self.write(locks(after), |statement| {
            let before = statement.refunds().get(&after.id).map(|before| (before.tenant, before.version));
            if before != Some((after.tenant, after.version - 1)) {
                return Ok(Changed::None);
            }
            check_unique(statement, after)?;
            statement.own.refunds.put(after.clone());
            Ok(Changed::One)
        })
        .await
    }
}

/// Locks of the row and of the unique key of its payment. The key is also locked when the refund fails, because the key
/// becomes free only with the commit.
fn locks(refund: &Refund) -> Vec<Lock> {
    vec![Lock::Refund(refund.id), Lock::RefundOfPayment(refund.payment)]
}

fn check_unique(statement: &Statement<'_>, refund: &Refund) -> Result<(), StoreError> {
    let refunds = statement.refunds();
    let not_failed = refunds.select(|table| {
        let id = table.index.not_failed.get(&refund.payment);
        id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
    });
    let another = not_failed.into_iter().any(|other| other.id != refund.id);
    if refund.status != RefundStatus::Failed && another {
        return Err(conflict(format!(
            "refunds: payment {} has another refund that has not failed",
            refund.payment
        )));
    }
    Ok(())
}
