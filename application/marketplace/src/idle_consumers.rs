//! The consumers that have no work with an event of an order.

use handover_outbox::ports::IdleConsumers;
use marketplace_domain::{Asset, EventBody, Order};

/// The consumers of assets that take this type of event and have no work with it: the order does not use their asset.
pub(crate) fn of_assets(event: &EventBody, order: &Order) -> IdleConsumers {
    // A payment earns points, and a refund takes them back, also if the buyer used none.
    let moves_points = matches!(event, EventBody::OrderPaid(_) | EventBody::OrderRefunded(_));
    let is_taken = moves_points || matches!(event, EventBody::OrderCreated(_) | EventBody::OrderCancelled(_));
    let is_idle =
        |asset: &Asset| is_taken && !order.assets.names(*asset) && !(moves_points && *asset == Asset::Points);
    Asset::HELD.into_iter().filter(is_idle).map(Asset::as_str).collect()
}
