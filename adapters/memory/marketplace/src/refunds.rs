//! Refunds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_memory::store::tables::Row;
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{
    OpenRefunds, RefundFilter, RefundQueries, RefundRepo, SentRefundRequest, attempt_begin,
};
use marketplace_domain::{
    OrderId, OrderStatus, PayableId, PaymentId, Reference, Refund, RefundId, RefundStatus, SupersededAttempt,
};

use crate::of_orders::of_orders;
use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct RefundIndex {
    by_payable: BTreeMap<(TenantId, PayableId), BTreeSet<RefundId>>,
    /// The refund of each capture that is in progress or succeeded and is no excess; a capture has at most one.
    live: BTreeMap<(PaymentId, u32), RefundId>,
    by_reference: BTreeMap<Reference, RefundId>,
    due: BTreeSet<(DateTime<Utc>, RefundId)>,
}

impl Row<Market> for Refund {
    type Key = RefundId;
    type Index = RefundIndex;

    fn key(&self) -> RefundId {
        self.id
    }

    fn enter(&self, index: &mut RefundIndex) {
        index.by_payable.entry((self.tenant, self.of)).or_default().insert(self.id);
        if is_live(self) {
            index.live.insert((self.payment, self.capture), self.id);
        }
        index.by_reference.extend(self.reference.map(|reference| (reference, self.id)));
        if self.status == RefundStatus::Processing {
            index.due.extend(self.next_attempt_time.map(|due| (due, self.id)));
        }
    }

    /// Removes an index entry only if it names this row: another row of the same commit may have replaced the entry.
    fn leave(&self, index: &mut RefundIndex) {
        if let Some(ids) = index.by_payable.get_mut(&(self.tenant, self.of)) {
            ids.remove(&self.id);
        }
        let capture = (self.payment, self.capture);
        if index.live.get(&capture) == Some(&self.id) {
            index.live.remove(&capture);
        }
        if let Some(reference) = self.reference {
            index.by_reference.remove(&reference);
        }
        if let Some(due) = self.next_attempt_time {
            index.due.remove(&(due, self.id));
        }
    }
}

impl Row<Market> for SupersededAttempt {
    type Key = Reference;
    type Index = ();

    fn key(&self) -> Reference {
        self.reference
    }
}

impl Row<Market> for SentRefundRequest {
    type Key = (RefundId, i64);
    type Index = ();

    fn key(&self) -> (RefundId, i64) {
        (self.refund, self.version)
    }
}

/// Whether the refund has returned the money of its capture, or is returning it.
fn is_live(refund: &Refund) -> bool {
    refund.status != RefundStatus::Failed && !refund.is_excess
}

/// The requests of a refund, latest first.
fn requests_of(statement: &Statement<'_>, refund: RefundId) -> Vec<SentRefundRequest> {
    let requests = statement.refund_requests();
    let latest_first = requests.select(|table| {
        let of_refund = table.rows().range((refund, i64::MIN)..=(refund, i64::MAX)).rev();
        of_refund.map(|((_, version), request)| (Reverse(*version), request))
    });
    latest_first.cloned().collect()
}

/// Whether the money of a failed refund is still to be returned, by this refund or another one.
fn is_to_be_returned(statement: &Statement<'_>, failed: &Refund) -> bool {
    let capture = statement.captures().get(&(failed.payment, failed.capture)).map(|it| it.refund_due);
    let payment = statement.payments().get(&failed.payment).map(|payment| payment.refund_due);
    let is_due = capture == Some(true) || payment == Some(true);
    let is_of_invoice = failed.of.invoice().is_some();
    let is_returned = of_payable(statement, failed.tenant, failed.of).into_iter().any(|other| {
        (other.payment, other.capture) == (failed.payment, failed.capture)
            && other.status != RefundStatus::Failed
            && (is_due || is_of_invoice || !other.is_excess)
    });
    let order = failed.of.order().and_then(|order| statement.orders().get(&order).map(|order| order.status));
    let is_shipped = matches!(order, Some(OrderStatus::Shipped | OrderStatus::Completed));
    !failed.is_excess && !is_returned && (is_due || !is_shipped)
}

#[async_trait]
impl RefundQueries for MarketUnit {
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError> {
        self.read(|statement| statement.refunds().get(&id).cloned()).await
    }

    async fn attempt_by_reference(
        &mut self,
        reference: Reference,
    ) -> Result<Option<(RefundId, u32)>, StoreError> {
        self.read(|statement| {
            let current = by_reference(statement, reference).map(|refund| (refund.id, refund.attempt));
            current.or_else(|| {
                let superseded = statement.superseded_attempts();
                superseded.get(&reference).map(|attempt| (attempt.refund, attempt.attempt))
            })
        })
        .await
    }

    async fn refunds_page(
        &mut self,
        filter: RefundFilter,
        before: Option<RefundId>,
        limit: u32,
    ) -> Result<Vec<Refund>, StoreError> {
        self.read(|statement| {
            let refunds = statement.refunds();
            let newest_first = refunds.select(|table| {
                let below = table.rows().iter().rev();
                let below = below.skip_while(move |(id, _)| before.is_some_and(|before| **id >= before));
                below.map(|(id, refund)| (Reverse(*id), refund))
            });
            let matching = newest_first.filter(|refund| {
                filter.tenant.is_none_or(|tenant| refund.tenant == tenant)
                    && filter.status.is_none_or(|status| refund.status == status)
            });
            matching.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn refunds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Refund>, StoreError> {
        self.read(|statement| {
            of_orders(tenant, orders, |(tenant, order)| of_payable(statement, tenant, order.into()))
        })
        .await
    }

    async fn refunds_due(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<RefundId>, StoreError> {
        self.read(|statement| {
            let refunds = statement.refunds();
            let earliest_first = refunds.select(|table| {
                let due = table.index.due.iter().take_while(move |(due, _)| *due <= now);
                due.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
            });
            earliest_first.take(limited(limit)).map(|refund| refund.id).collect()
        })
        .await
    }

    async fn refund_requests(
        &mut self,
        refund: RefundId,
        limit: u32,
    ) -> Result<Vec<SentRefundRequest>, StoreError> {
        self.read(|statement| requests_of(statement, refund).into_iter().take(limited(limit)).collect()).await
    }

    async fn open_refunds(&mut self) -> Result<OpenRefunds, StoreError> {
        self.read(|statement| {
            let mut open = OpenRefunds::default();
            for refund in statement.refunds().all() {
                match refund.status {
                    RefundStatus::Processing => {
                        open.processing += 1;
                        let begin = attempt_begin(refund, &requests_of(statement, refund.id));
                        let oldest = open.oldest_processing.map_or(begin, |oldest| oldest.min(begin));
                        open.oldest_processing = Some(oldest);
                    }
                    RefundStatus::Failed => open.failed += u64::from(is_to_be_returned(statement, refund)),
                    RefundStatus::Success => {}
                }
            }
            open
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
            let expected = (after.tenant, after.version - 1);
            let before = statement.refunds().get(&after.id).cloned();
            let Some(before) = before.filter(|before| (before.tenant, before.version) == expected) else {
                return Ok(Changed::None);
            };
            check_unique(statement, after)?;
            statement.own.refunds.put(Refund { reason: before.reason, ..after.clone() });
            Ok(Changed::One)
        })
        .await
    }

    async fn insert_superseded_attempt(&mut self, attempt: &SupersededAttempt) -> Result<(), StoreError> {
        self.write(vec![Lock::RefundReference(attempt.reference)], |statement| {
            if statement.superseded_attempts().get(&attempt.reference).is_some() {
                return Err(conflict(format!("refund_attempts.reference {}", attempt.reference)));
            }
            statement.own.superseded_attempts.put(*attempt);
            Ok(())
        })
        .await
    }

    async fn insert_refund_request(&mut self, request: &SentRefundRequest) -> Result<(), StoreError> {
        self.write(vec![Lock::Refund(request.refund)], |statement| {
            let key = request.key();
            if statement.refund_requests().get(&key).is_some() {
                return Err(conflict(format!("refund_requests {} of version {}", key.0, key.1)));
            }
            statement.own.refund_requests.put(request.clone());
            Ok(())
        })
        .await
    }

    async fn set_refund_request_error(
        &mut self,
        refund: RefundId,
        version: i64,
        error: &str,
    ) -> Result<(), StoreError> {
        self.write(vec![Lock::Refund(refund)], |statement| {
            if let Some(request) = statement.refund_requests().get(&(refund, version)).cloned() {
                statement
                    .own
                    .refund_requests
                    .put(SentRefundRequest { error: Some(error.to_owned()), ..request });
            }
            Ok(())
        })
        .await
    }
}

/// Locks of the row and of the unique keys of its capture and reference. The key of the capture is also locked when the refund fails, because the key
/// becomes free only with the commit.
fn locks(refund: &Refund) -> Vec<Lock> {
    let mut locks = vec![Lock::Refund(refund.id), Lock::RefundOfCapture(refund.payment, refund.capture)];
    locks.extend(refund.reference.map(Lock::RefundReference));
    locks
}

/// Every refund of an order or invoice, sorted by id.
pub(crate) fn of_payable(statement: &Statement<'_>, tenant: TenantId, payable: PayableId) -> Vec<Refund> {
    let refunds = statement.refunds();
    let of_payable = refunds.select(|table| {
        let ids = table.index.by_payable.get(&(tenant, payable)).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    });
    of_payable.cloned().collect()
}

fn by_reference<'s>(statement: &'s Statement<'_>, reference: Reference) -> Option<&'s Refund> {
    let refunds = statement.refunds();
    refunds
        .select(|table| {
            let id = table.index.by_reference.get(&reference);
            id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
        })
        .next()
}

fn check_unique(statement: &Statement<'_>, refund: &Refund) -> Result<(), StoreError> {
    let refunds = statement.refunds();
    let mut live = refunds.select(|table| {
        let id = table.index.live.get(&(refund.payment, refund.capture));
        id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
    });
    if is_live(refund) && live.any(|other| other.id != refund.id) {
        return Err(conflict(format!(
            "refunds: capture {} of payment {} has another refund that has not failed",
            refund.capture, refund.payment
        )));
    }
    if let Some(reference) = refund.reference
        && by_reference(statement, reference).is_some_and(|other| other.id != refund.id)
    {
        return Err(conflict(format!("refunds.reference {reference}")));
    }
    Ok(())
}
