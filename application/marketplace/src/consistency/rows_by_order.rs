//! Groups rows that are read for several orders at once.

use std::collections::BTreeMap;

use handover_events::TenantId;
use marketplace_domain::{Order, OrderId};

/// The ids of these orders, by tenant.
pub(crate) fn ids_by_tenant(orders: &[Order]) -> BTreeMap<TenantId, Vec<OrderId>> {
    let mut ids: BTreeMap<TenantId, Vec<OrderId>> = BTreeMap::new();
    for order in orders {
        ids.entry(order.tenant).or_default().push(order.id);
    }
    ids
}

/// Rows by the order that they belong to.
pub(crate) struct RowsByOrder<T>(BTreeMap<(TenantId, OrderId), Vec<T>>);

impl<T> Default for RowsByOrder<T> {
    fn default() -> RowsByOrder<T> {
        RowsByOrder(BTreeMap::new())
    }
}

impl<T> RowsByOrder<T> {
    /// Adds rows of a tenant; `order_of` returns the order of a row. Rows without an order are ignored.
    pub(crate) fn extend<O: Into<Option<OrderId>>>(
        &mut self,
        tenant: TenantId,
        rows: Vec<T>,
        order_of: impl Fn(&T) -> O,
    ) {
        for row in rows {
            if let Some(order) = order_of(&row).into() {
                self.0.entry((tenant, order)).or_default().push(row);
            }
        }
    }

    /// Removes and returns the rows of an order, in the sequence in which they were added.
    pub(crate) fn take(&mut self, order: &Order) -> Vec<T> {
        self.0.remove(&(order.tenant, order.id)).unwrap_or_default()
    }
}
