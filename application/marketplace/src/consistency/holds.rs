//! Holds that are gone although something tells of them.

use chrono::{DateTime, Utc};
use marketplace_domain::{Asset, AssetOperation, Hold, Order, OrderStatus};

/// The hold that an order has of an asset, by everything but its row: as its operations tell it; or the tombstone that
/// a release before its lock leaves. `None` where there is none, or none yet: a cancelled order has a tombstone only once
/// its consumer has applied the cancellation.
pub(crate) fn told_hold(
    order: &Order,
    asset: Asset,
    operations: &[AssetOperation],
    now: DateTime<Utc>,
) -> Option<Hold> {
    let told = Hold::told_by(operations, asset);
    let buried = || Hold::tombstone((order.tenant, order.id), order.buyer, asset, now);
    told.or_else(|| is_over_unheld(order, asset, operations).then(buried))
}

/// Whether the order is over without ever having held what it names.
pub(crate) fn is_over_unheld(order: &Order, asset: Asset, operations: &[AssetOperation]) -> bool {
    order.status == OrderStatus::Cancelled
        && order.assets.names(asset)
        && Hold::told_by(operations, asset).is_none()
}
