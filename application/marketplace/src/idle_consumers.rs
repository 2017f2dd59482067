//! The consumers that have no work with an event of an order.

use handover_outbox::ports::{IdleConsumers, NewEvent, OutboxUnit, StoreError};
use handover_outbox::webhooks::DeliveryWriter;
use marketplace_domain::{Asset, EventBody, Order};

use crate::webhook_offer::OFFER;

/// The consumers of assets that take this type of event and have no work with it: the order does not use their asset.
pub(crate) fn of_assets(event: &EventBody, order: &Order) -> IdleConsumers {
    // A payment earns points, and a refund takes them back, also if the buyer used none.
    let moves_points = matches!(event, EventBody::OrderPaid(_) | EventBody::OrderRefunded(_));
    let is_taken = moves_points || matches!(event, EventBody::OrderCreated(_) | EventBody::OrderCancelled(_));
    let is_idle =
        |asset: &Asset| is_taken && !order.assets.names(*asset) && !(moves_points && *asset == Asset::Points);
    Asset::HELD.into_iter().filter(is_idle).map(Asset::as_str).collect()
}

/// Adds the consumer of webhooks to the idle consumers of events that no endpoint of their tenant asks for. Endpoints are read
/// in the transaction of the events: an endpoint gets every event of a transaction that begins after its creation.
pub(crate) async fn add_webhooks(
    unit: &mut dyn OutboxUnit,
    events: &mut [NewEvent],
) -> Result<(), StoreError> {
    let mut tenants: Vec<_> = events.iter().map(|event| event.aggregate.tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let endpoints = unit.webhook_endpoints(&tenants).await?;
    for event in events {
        if OFFER.of_row(&event.event_type).is_some()
            && !OFFER.has_receiver(&endpoints, &event.event_type, &event.aggregate)
        {
            event.idle_consumers.insert(DeliveryWriter::NAME);
        }
    }
    Ok(())
}
