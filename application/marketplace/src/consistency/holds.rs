//! Reconstruction of holds whose row is missing.

use chrono::{DateTime, Utc};
use marketplace_domain::{Asset, AssetOperation, Hold, Order, OrderStatus};

/// Reconstructs the lost hold of an order on an asset from its operations. For a cancelled order without such
/// operations, returns a tombstone. `None` if the order has no hold on the asset. A cancelled order may have no
/// tombstone yet, so the caller MUST check that the consumer has applied the cancellation.
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
