//! Captures of payments.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;
use handover_memory::store::conflict;
use handover_memory::store::tables::Row;
use handover_outbox::ports::{Changed, StoreError};
use marketplace_domain::{Capture, OrderId, PayableId, PaymentId};

use crate::of_orders::of_orders;
use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct CaptureIndex {
    by_payable: BTreeMap<(TenantId, PayableId), BTreeSet<(PaymentId, u32)>>,
    by_transaction: BTreeMap<String, (PaymentId, u32)>,
}

impl Row<Market> for Capture {
    type Key = (PaymentId, u32);
    type Index = CaptureIndex;

    fn key(&self) -> (PaymentId, u32) {
        (self.payment, self.number)
    }

    fn enter(&self, index: &mut CaptureIndex) {
        index.by_payable.entry((self.tenant, self.of)).or_default().insert(self.key());
        index.by_transaction.insert(self.transaction_id.clone(), self.key());
    }

    fn leave(&self, index: &mut CaptureIndex) {
        if let Some(keys) = index.by_payable.get_mut(&(self.tenant, self.of)) {
            keys.remove(&self.key());
        }
        index.by_transaction.remove(&self.transaction_id);
    }
}

impl MarketUnit {
    pub(crate) async fn read_captures(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Capture>, StoreError> {
        self.read(|statement| {
            of_orders(tenant, orders, |(tenant, order)| of_payable(statement, tenant, order.into()))
        })
        .await
    }

    pub(crate) async fn read_capture_by_transaction(
        &mut self,
        transaction: &str,
    ) -> Result<Option<Capture>, StoreError> {
        self.read(|statement| by_transaction(statement, transaction).cloned()).await
    }

    pub(crate) async fn write_capture(&mut self, capture: &Capture) -> Result<(), StoreError> {
        let key = capture.key();
        let locks =
            vec![Lock::Capture(key.0, key.1), Lock::CapturedTransaction(capture.transaction_id.clone())];
        self.write(locks, |statement| {
            if statement.captures().get(&key).is_some() {
                return Err(conflict(format!("captures: payment {} has a capture {}", key.0, key.1)));
            }
            if by_transaction(statement, &capture.transaction_id).is_some() {
                return Err(conflict(format!("captures.transaction_id {}", capture.transaction_id)));
            }
            statement.own.captures.put(capture.clone());
            Ok(())
        })
        .await
    }

    pub(crate) async fn change_capture(&mut self, after: &Capture) -> Result<Changed, StoreError> {
        let key = after.key();
        self.write(vec![Lock::Capture(key.0, key.1)], |statement| {
            let Some(before) = statement.captures().get(&key).cloned() else { return Ok(Changed::None) };
            let Capture { refund_due, in_suspense, .. } = *after;
            statement.own.captures.put(Capture { refund_due, in_suspense, ..before });
            Ok(Changed::One)
        })
        .await
    }
}

/// Every capture of an order or invoice, sorted by payment and number.
pub(crate) fn of_payable(statement: &Statement<'_>, tenant: TenantId, payable: PayableId) -> Vec<Capture> {
    let captures = statement.captures();
    let of_payable = captures.select(|table| {
        let keys = table.index.by_payable.get(&(tenant, payable)).into_iter().flatten();
        keys.filter_map(|key| Some((*key, table.get(key)?)))
    });
    of_payable.cloned().collect()
}

fn by_transaction<'s>(statement: &'s Statement<'_>, transaction: &str) -> Option<&'s Capture> {
    let captures = statement.captures();
    captures
        .select(|table| {
            let key = table.index.by_transaction.get(transaction);
            key.and_then(|key| Some((*key, table.get(key)?))).into_iter()
        })
        .next()
}
