//! A transition of an order in a unit of work. Used by use cases, consumers and jobs.

use handover_events::{AggregateRef, TenantId};
use marketplace_domain::{
    AggregateType, EventKind, Order, OrderAction, OrderActor, OrderId, OrderRefusal, ProductAction,
};

use super::UseCaseError;
use crate::event_types::append;
use crate::events::EventFactory;
use crate::ports::Work;
use handover_outbox::ports::{OutboxRow, StoreError};

/// Applies an action: writes the order, releases its product if necessary, and appends the events. Skips the first
/// `skip` event ids, which belong to earlier changes.
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
    if after.status.frees_product() {
        let product = unit
            .product_by_id(order.tenant, order.product)
            .await?
            .ok_or(UseCaseError::NotFound { what: "product" })?;
        let freed = product.apply(ProductAction::Release, event_factory.now).map_err(OrderRefusal::from)?;
        unit.advance_product(&freed).await?.or_conflict("product")?;
    }
    append(unit.outbox(), event_factory.rows(skip, &after, after.version, &events)).await?;
    Ok(after)
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
