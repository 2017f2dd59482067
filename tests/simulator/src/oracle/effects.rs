//! Effects of the consumers on listings and shipments.

use handover_events::EventId;
use handover_outbox::ports::{OutboxRow, StoreError};
use marketplace_domain::{EventKind, Order, OrderStatus};

use super::Checker;

pub(super) async fn check(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
) -> Result<(), StoreError> {
    let types = [EventKind::OrderCreated, EventKind::OrderCancelled, EventKind::OrderRefunded];
    let mut expected = checker.expected_events("inventory", rows, &types);
    let changes = checker.view.listing_changes(order.tenant, &[order.id]).await?;
    let applied: Vec<EventId> = changes.into_iter().map(|change| change.event_id).collect();
    let created = |event: &EventId| {
        let row = rows.iter().find(|row| row.event_id == *event);
        row.is_some_and(|row| row.event_type == EventKind::OrderCreated.as_str())
    };
    // If the order was already cancelled or refunded when the event was applied, it does not occupy the listing.
    expected.retain(|event| !(order.is_cancelled_or_refunded() && created(event)) || applied.contains(event));
    checker.compare("inventory", order, &expected, &applied);

    let mut expected = checker.expected_events("fulfillment", rows, &[EventKind::OrderPaid]);
    let tasks = checker.view.shipment_tasks(order.tenant, &[order.id]).await?;
    let applied: Vec<EventId> = tasks.into_iter().map(|task| task.event_id).collect();
    // If the order was already refunded when the event was applied, it is not shipped.
    expected.retain(|event| order.status != OrderStatus::Refunded || applied.contains(event));
    checker.compare("fulfillment", order, &expected, &applied);
    Ok(())
}
