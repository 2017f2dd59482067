//! Rows that consumers have written, by order.

use handover_events::TenantId;
use marketplace_domain::{Order, OrderId};

use crate::consistency::rows_by_order::{RowsByOrder, ids_by_tenant};
use crate::consumer::{Effect, StoredEffects};
use crate::ports::{EffectKind, MarketView};
use handover_outbox::BoxFuture;
use handover_outbox::ports::StoreError;

/// Reads the rows of some orders of a tenant.
type Read<T> =
    for<'v> fn(&'v mut dyn MarketView, TenantId, &'v [OrderId]) -> BoxFuture<'v, Result<Vec<T>, StoreError>>;

/// Reads the rows of these orders, tenant by tenant, and returns the effects of each order.
pub(super) async fn of_orders<T, E: StoredEffects + 'static>(
    view: &mut dyn MarketView,
    orders: &[Order],
    read: Read<T>,
    order_of: fn(&T) -> OrderId,
    effects: fn(Vec<T>) -> E,
) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
    let mut rows = RowsByOrder::default();
    for (tenant, ids) in ids_by_tenant(orders) {
        rows.extend(tenant, read(view, tenant, &ids).await?, order_of);
    }
    Ok(orders.iter().map(|order| Box::new(effects(rows.take(order))) as Box<dyn StoredEffects>).collect())
}

/// Compares the number of effect rows with the expected number.
pub(super) fn rows(kind: EffectKind, found: usize, expected: usize) -> Effect {
    Effect::Rows { table: kind.table(), found, expected }
}
