//! What the consumers of the market did: listings and shipments.

use handover_application::ports::*;
use handover_domain::*;

use super::Case;

pub(super) async fn check(case: &mut Case<'_>, order: &Order, rows: &[&OutboxRow]) -> Result<(), StoreError> {
    let types = [EventType::OrderCreated, EventType::OrderCancelled, EventType::OrderRefunded];
    let due = case.due("inventory", rows, &types);
    let changes = case.view.listing_changes(order.tenant, order.id).await?;
    let had: Vec<EventId> = changes.into_iter().map(|change| change.event_id).collect();
    case.compare("inventory", order, &due, &had);

    let due = case.due("fulfillment", rows, &[EventType::OrderPaid]);
    let tasks = case.view.shipment_tasks(order.tenant, order.id).await?;
    let had: Vec<EventId> = tasks.into_iter().map(|task| task.event_id).collect();
    case.compare("fulfillment", order, &due, &had);
    Ok(())
}
