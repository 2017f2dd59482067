//! A transition of an order in a unit of work. Used by use cases, consumers and jobs.

use handover_events::{AggregateRef, TenantId};
use marketplace_domain::{AggregateType, EventType, Order, OrderAction, OrderActor, OrderId, ProductAction};

use super::{UseCaseError, one_row};
use crate::app::Announcer;
use crate::idempotency::{SuccessStatus, with_answer};
use crate::ports::Work;
use crate::{Actor, App, CommandContext};
use handover_events::Trace;
use handover_outbox::append;
use handover_outbox::ports::{OutboxQueries, OutboxRow, StoreError};

/// Applies an action: writes the order, releases its product if necessary, and appends the events. Skips the first `skip`
/// event ids, which belong to earlier changes.
pub(crate) async fn apply(
    unit: &mut Work,
    order: &Order,
    action: &OrderAction,
    actor: OrderActor,
    announcer: &Announcer,
    skip: usize,
) -> Result<Order, UseCaseError> {
    let (after, events) = order.apply(action, actor, announcer.now)?;
    one_row(unit.advance_order(&after).await?, "order")?;
    if after.status.frees_product() {
        let product = unit
            .product_by_id(order.tenant, order.product)
            .await?
            .ok_or(UseCaseError::NotFound { what: "product" })?;
        let freed = product.apply(ProductAction::Release, announcer.now)?;
        one_row(unit.advance_product(&freed).await?, "product")?;
    }
    append(unit.outbox(), &announcer.rows(skip, after.tenant, after.version, &events)).await?;
    Ok(after)
}

/// The trace of the request that placed the order, for jobs that change the order without a request. `None` if its event
/// is not in the outbox.
pub(crate) async fn trace_of_order(
    unit: &mut Work,
    tenant: TenantId,
    order: OrderId,
) -> Result<Option<Trace>, StoreError> {
    let aggregate = AggregateRef { tenant, kind: AggregateType::Order.as_str().to_owned(), id: order.get() };
    let rows = unit.outbox().outbox_about(std::slice::from_ref(&aggregate)).await?;
    let placed = rows.iter().find(|row| row.event_type == EventType::OrderCreated.as_str());
    Ok(placed.map(OutboxRow::trace))
}

/// Applies an action of a buyer or seller in its own unit of work. For other users the order is not found.
pub(super) async fn by_party(
    app: &App,
    context: &CommandContext,
    id: OrderId,
    action: OrderAction,
) -> Result<Order, UseCaseError> {
    let Actor::User { id: user, .. } = context.actor else {
        return Err(UseCaseError::NotAllowed { what: "a signed-in user" });
    };
    let tenant = context.tenant;
    let announcer = app.announcer(context, 1);
    with_answer(app, context, SuccessStatus::Ok, move |unit, attempt| {
        let action = action.clone();
        let announcer = announcer.clone();
        Box::pin(async move {
            let order = unit
                .order_of_party(tenant, id, user)
                .await?
                .ok_or(UseCaseError::NotFound { what: "order" })?;
            if attempt.may_have_happened() && was_committed(unit, &announcer).await? {
                return Ok(order);
            }
            apply(unit, &order, &action, order.party(user), &announcer, 0).await
        })
    })
    .await
}

/// Whether an earlier attempt committed the command: its first event is in the outbox.
pub(super) async fn was_committed(unit: &mut Work, announcer: &Announcer) -> Result<bool, UseCaseError> {
    let Some(id) = announcer.first_id() else { return Ok(false) };
    Ok(!OutboxQueries::outbox_by_event(unit.outbox(), std::slice::from_ref(id)).await?.is_empty())
}
