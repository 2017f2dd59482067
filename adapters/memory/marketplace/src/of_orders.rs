//! Reads the rows of several orders.

use std::collections::BTreeSet;

use handover_events::TenantId;
use marketplace_domain::OrderId;

/// The rows that `of_order` returns for each of these orders, sorted by order.
pub(crate) fn of_orders<T>(
    tenant: TenantId,
    orders: &[OrderId],
    of_order: impl Fn((TenantId, OrderId)) -> Vec<T>,
) -> Vec<T> {
    let orders: BTreeSet<OrderId> = orders.iter().copied().collect();
    orders.into_iter().flat_map(|order| of_order((tenant, order))).collect()
}
