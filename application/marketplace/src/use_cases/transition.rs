//! A transition of an order in a unit of work. Used by use cases, consumers and jobs.

use handover_events::{AggregateRef, TenantId};
use marketplace_domain::{
    AggregateType, EventKind, Order, OrderAction, OrderActor, OrderId, OrderRefusal, ProductAction,
    ProductStatus,
};
use tracing::error;

use super::UseCaseError;
use crate::event_types::append;
use crate::events::EventFactory;
use crate::ports::{Notification, OrderSide, Work};
use handover_outbox::ports::{NewEvent, OutboxRow, StoreError};

/// Applies an action: writes the order, frees its product if it is closed, notifies the buyer if the seller declines the
/// order, and appends the events. Skips the first `skip` event ids, which belong to earlier changes.
pub(crate) async fn apply<R: From<OrderRefusal>>(
    unit: &mut Work,
    order: &Order,
    action: &OrderAction,
    actor: OrderActor,
    event_factory: &EventFactory,
    skip: usize,
) -> Result<Order, UseCaseError<R>> {
    let (after, events) = order.apply(action, actor, event_factory.now)?;
    unit.advance_order(&after).await?.or_conflict("order")?;
    if let Some(product_action) = action.product_action() {
        free_product(unit, &after, product_action).await?;
    }
    let rows = event_factory.rows(skip, &after, after.version, &events);
    if let (true, Some(row)) = (action.is_decline(), rows.first()) {
        unit.notify(&[decline_notification(order, &after, row)]).await?;
    }
    append(unit.outbox(), rows).await?;
    Ok(after)
}

/// Puts the product of a closed order on sale again, or takes it off the shelf. A product that is not sold or does not exist,
/// as after a change by SQL, stays as it is, unless it is on sale and leaves the shelf: the assets and the money of the order do not
/// wait for its correction.
async fn free_product(unit: &mut Work, closed: &Order, action: ProductAction) -> Result<(), StoreError> {
    let product = unit.product_by_id(closed.tenant, closed.product).await?;
    let is_on_sale = product.as_ref().is_some_and(|product| product.status == ProductStatus::OnSale);
    // The seller does not offer it any more, whatever its status.
    let is_withdrawn_from_sale = action == ProductAction::Withdraw && is_on_sale;
    let action = if is_withdrawn_from_sale { ProductAction::OffShelf } else { action };
    let Some(freed) = product.as_ref().and_then(|it| it.apply(action, closed.update_time).ok()) else {
        let status = product.map(|product| product.status.as_str());
        error!(code = "order.product-not-sold", orderId = %closed.id, productId = %closed.product, status,
            "[Order] [ALERT] product of an order that is closed is not sold; it stays as it is");
        return Ok(());
    };
    unit.advance_product(&freed).await?.or_conflict("product")
}

/// The notification of the buyer that the seller declined the order; `event` announces the change. It is written with the
/// decline, because the consumer of notifications receives only ORDER_STATUS_CHANGED.
fn decline_notification(before: &Order, after: &Order, event: &NewEvent) -> Notification {
    Notification {
        tenant: after.tenant,
        recipient: after.buyer,
        side: OrderSide::Buyer,
        order: after.id,
        aggregate_seq: after.version,
        old_status: before.status,
        new_status: after.status,
        changed_at: after.update_time,
        event_id: event.event_id.clone(),
        at: after.update_time,
    }
}

/// The ORDER_CREATED event of the order, for jobs that change the order without a request: their events belong to the
/// request that placed the order. `None` if the event is not in the outbox.
pub(crate) async fn creation_of_order(
    unit: &mut Work,
    tenant: TenantId,
    order: OrderId,
) -> Result<Option<OutboxRow>, StoreError> {
    let aggregate =
        AggregateRef { tenant, kind: AggregateType::Order.as_str().to_owned(), id: order.get().into() };
    let rows = unit.outbox().outbox_about(std::slice::from_ref(&aggregate)).await?;
    Ok(rows.into_iter().find(|row| row.event_type == EventKind::OrderCreated.as_str()))
}
