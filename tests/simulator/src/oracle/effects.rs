//! What the consumers of the market did: listings and shipments.

use handover_events::*;
use handover_outbox::ports::*;
use marketplace_domain::*;

use super::Case;

pub(super) async fn check(case: &mut Case<'_>, order: &Order, rows: &[&OutboxRow]) -> Result<(), StoreError> {
    let types = [EventType::OrderCreated, EventType::OrderCancelled, EventType::OrderRefunded];
    let mut due = case.due("inventory", rows, &types);
    let changes = case.view.listing_changes(order.tenant, order.id).await?;
    let had: Vec<EventId> = changes.into_iter().map(|change| change.event_id).collect();
    let created = |event: &EventId| {
        let row = rows.iter().find(|row| row.event_id == *event);
        row.is_some_and(|row| row.event_type == EventType::OrderCreated.as_str())
    };
    // An order that was over when it was seen to begin takes nothing.
    due.retain(|event| !(order.is_undone() && created(event)) || had.contains(event));
    case.compare("inventory", order, &due, &had);

    let mut due = case.due("fulfillment", rows, &[EventType::OrderPaid]);
    let tasks = case.view.shipment_tasks(order.tenant, order.id).await?;
    let had: Vec<EventId> = tasks.into_iter().map(|task| task.event_id).collect();
    // An order that was refunded by then is not shipped.
    due.retain(|event| order.status != OrderStatus::Refunded || had.contains(event));
    case.compare("fulfillment", order, &due, &had);
    Ok(())
}
