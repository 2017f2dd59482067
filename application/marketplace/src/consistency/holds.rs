//! Lost holds: the row is missing although operations of the order refer to it.

use chrono::{DateTime, Utc};
use marketplace_domain::{Asset, AssetOperation, Hold, Order, OrderStatus};

/// Reconstructs the hold of an order on an asset if its row is missing: from the operations, or as the tombstone that a
/// release before its lock leaves. `None` if the order has no such hold. A cancelled order has a tombstone only after
/// the consumer has applied the cancellation, so the caller MUST check that.
pub(crate) fn reconstructed_hold(
    order: &Order,
    asset: Asset,
    operations: &[AssetOperation],
    now: DateTime<Utc>,
) -> Option<Hold> {
    let from_operations = Hold::from_operations(operations, asset);
    let tombstone = || Hold::tombstone((order.tenant, order.id), order.buyer, asset, now);
    from_operations.or_else(|| is_cancelled_without_hold(order, asset, operations).then(tombstone))
}

/// Whether the order was cancelled and never held this asset, although the order uses the asset.
pub(crate) fn is_cancelled_without_hold(order: &Order, asset: Asset, operations: &[AssetOperation]) -> bool {
    order.status == OrderStatus::Cancelled
        && order.assets.names(asset)
        && Hold::from_operations(operations, asset).is_none()
}
