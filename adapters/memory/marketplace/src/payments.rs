//! Payments.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::TenantId;
use handover_memory::store::tables::Row;
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{PaymentFilter, PaymentQueries, PaymentRepo};
use marketplace_domain::{Capture, OrderId, PayableId, Payment, PaymentId, PaymentStatus, Reference};

use crate::of_orders::of_orders;
use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct PaymentIndex {
    by_payable: BTreeMap<(TenantId, PayableId), BTreeSet<PaymentId>>,
    processing: BTreeMap<(TenantId, PayableId), PaymentId>,
    by_transaction: BTreeMap<String, PaymentId>,
    by_reference: BTreeMap<Reference, PaymentId>,
}

impl Row<Market> for Payment {
    type Key = PaymentId;
    type Index = PaymentIndex;

    fn key(&self) -> PaymentId {
        self.id
    }

    fn enter(&self, index: &mut PaymentIndex) {
        index.by_payable.entry((self.tenant, self.of)).or_default().insert(self.id);
        if self.status == PaymentStatus::Processing {
            index.processing.insert((self.tenant, self.of), self.id);
        }
        if let Some(transaction) = &self.transaction_id {
            index.by_transaction.insert(transaction.clone(), self.id);
        }
        index.by_reference.extend(self.reference.map(|reference| (reference, self.id)));
    }

    /// Removes an index entry only if it names this row: another row of the same commit may have replaced the entry.
    fn leave(&self, index: &mut PaymentIndex) {
        let payable = (self.tenant, self.of);
        if let Some(ids) = index.by_payable.get_mut(&payable) {
            ids.remove(&self.id);
        }
        if self.status == PaymentStatus::Processing && index.processing.get(&payable) == Some(&self.id) {
            index.processing.remove(&payable);
        }
        if let Some(transaction) = &self.transaction_id
            && index.by_transaction.get(transaction) == Some(&self.id)
        {
            index.by_transaction.remove(transaction);
        }
    }
}

#[async_trait]
impl PaymentQueries for MarketUnit {
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError> {
        self.read(|statement| statement.payments().get(&id).cloned()).await
    }

    async fn payment_by_reference(&mut self, reference: Reference) -> Result<Option<Payment>, StoreError> {
        self.read(|statement| by_reference(statement, reference).cloned()).await
    }

    async fn payment_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Payment>, StoreError> {
        self.read(|statement| by_transaction(statement, transaction_id).cloned()).await
    }

    async fn captures_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Capture>, StoreError> {
        self.read_captures(tenant, orders).await
    }

    async fn capture_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Capture>, StoreError> {
        self.read_capture_by_transaction(transaction_id).await
    }

    async fn payment_in_processing(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Option<Payment>, StoreError> {
        self.read(|statement| in_processing(statement, tenant, order.into()).cloned()).await
    }

    async fn payments_page(
        &mut self,
        filter: PaymentFilter,
        before: Option<PaymentId>,
        limit: u32,
    ) -> Result<Vec<Payment>, StoreError> {
        self.read(|statement| {
            let payments = statement.payments();
            let newest_first = payments.select(|table| {
                let below = table.rows().iter().rev();
                let below = below.skip_while(move |(id, _)| before.is_some_and(|before| **id >= before));
                below.map(|(id, payment)| (Reverse(*id), payment))
            });
            let is_above = |payment: &&Payment| filter.above_id.is_none_or(|above| payment.id.get() > above);
            let above = newest_first.filter(is_above);
            let matching = above.filter(|payment| {
                filter.tenant.is_none_or(|tenant| payment.tenant == tenant)
                    && filter.status.is_none_or(|status| payment.status == status)
            });
            matching.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn payments_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Payment>, StoreError> {
        self.read(|statement| {
            of_orders(tenant, orders, |(tenant, order)| of_payable(statement, tenant, order.into()))
        })
        .await
    }
}

#[async_trait]
impl PaymentRepo for MarketUnit {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        self.write(locks(payment), |statement| {
            if statement.payments().get(&payment.id).is_some() {
                return Err(conflict(format!("payments.id {}", payment.id)));
            }
            check_unique(statement, payment)?;
            statement.own.payments.put(payment.clone());
            Ok(())
        })
        .await
    }

    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        self.write(locks(after), |statement| {
            let before = statement.payments().get(&after.id).map(|before| (before.tenant, before.version));
            if before != Some((after.tenant, after.version - 1)) {
                return Ok(Changed::None);
            }
            check_unique(statement, after)?;
            statement.own.payments.put(after.clone());
            Ok(Changed::One)
        })
        .await
    }

    async fn insert_capture(&mut self, capture: &Capture) -> Result<(), StoreError> {
        self.write_capture(capture).await
    }

    async fn update_capture(&mut self, capture: &Capture) -> Result<Changed, StoreError> {
        self.change_capture(capture).await
    }
}

/// Locks of the row and its unique keys. The key of the order or invoice is also locked when the payment leaves `PROCESSING`,
/// because the key becomes free only with the commit.
fn locks(payment: &Payment) -> Vec<Lock> {
    let mut locks = vec![Lock::Payment(payment.id), Lock::PaymentInProcessing(payment.tenant, payment.of)];
    locks.extend(payment.transaction_id.clone().map(Lock::GatewayTransaction));
    locks.extend(payment.reference.map(Lock::PaymentReference));
    locks
}

/// Every payment of an order or invoice, sorted by id.
pub(crate) fn of_payable(statement: &Statement<'_>, tenant: TenantId, payable: PayableId) -> Vec<Payment> {
    let payments = statement.payments();
    let of_payable = payments.select(|table| {
        let ids = table.index.by_payable.get(&(tenant, payable)).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    });
    of_payable.cloned().collect()
}

fn in_processing<'s>(
    statement: &'s Statement<'_>,
    tenant: TenantId,
    payable: PayableId,
) -> Option<&'s Payment> {
    let payments = statement.payments();
    payments
        .select(|table| {
            let id = table.index.processing.get(&(tenant, payable));
            id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
        })
        .next()
}

fn by_transaction<'s>(statement: &'s Statement<'_>, transaction: &str) -> Option<&'s Payment> {
    let payments = statement.payments();
    payments
        .select(|table| {
            let id = table.index.by_transaction.get(transaction);
            id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
        })
        .next()
}

fn by_reference<'s>(statement: &'s Statement<'_>, reference: Reference) -> Option<&'s Payment> {
    let payments = statement.payments();
    payments
        .select(|table| {
            let id = table.index.by_reference.get(&reference);
            id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
        })
        .next()
}

fn check_unique(statement: &Statement<'_>, payment: &Payment) -> Result<(), StoreError> {
    let another = |found: Option<&Payment>| found.is_some_and(|other| other.id != payment.id);
    if payment.status == PaymentStatus::Processing
        && another(in_processing(statement, payment.tenant, payment.of))
    {
        return Err(conflict(format!("payments: {} already has a payment in PROCESSING", payment.of)));
    }
    if let Some(transaction) = &payment.transaction_id
        && another(by_transaction(statement, transaction))
    {
        return Err(conflict(format!("payments.transaction_id {transaction}")));
    }
    if let Some(reference) = payment.reference
        && another(by_reference(statement, reference))
    {
        return Err(conflict(format!("payments.reference {reference}")));
    }
    Ok(())
}
