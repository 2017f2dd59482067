//! Events that were never announced, and announcing them.

use std::collections::BTreeSet;
use std::sync::Arc;

use handover_domain::{AggregateRef, AggregateType, EventId, Order, OrderId, TenantId};

use super::{Announced, expected};
use crate::mutants::{Mutant, planted};
use crate::ports::{AuditEntry, EventMetadata, NewEvent, OutboxRow, StoreError, UnitOfWork, View};
use crate::{App, append, with_tx};

/// What is missing in the outbox of an order, its payments and its refunds; and what is there.
pub(crate) async fn missing<V: View + ?Sized>(
    view: &mut V,
    order: &Order,
) -> Result<(Vec<Announced>, Vec<OutboxRow>), StoreError> {
    let payments = view.payments_of(order.tenant, order.id).await?;
    let refunds = view.refunds_of(order.tenant, order.id).await?;
    let about = |kind: AggregateType, id: i64| AggregateRef {
        tenant: order.tenant,
        kind: kind.as_str().to_owned(),
        id,
    };
    let mut aggregates = vec![about(AggregateType::Order, order.id.get())];
    aggregates.extend(payments.iter().map(|payment| about(AggregateType::Payment, payment.id.get())));
    aggregates.extend(refunds.iter().map(|refund| about(AggregateType::Refund, refund.id.get())));
    // Read after the rows that announce them: what is committed in between is there.
    let rows = view.outbox_about(&aggregates).await?;
    let mut absent = expected(order, &payments, &refunds);
    absent.retain(|event| !rows.iter().any(|row| event.is_in(row)));
    Ok((absent, rows))
}

/// Announces what is missing of an order and returns it with the ids of the new rows. Where an operator asked for it, the
/// audit log records that. Two that do so at once announce it once: an event that was consumed before its row was lost
/// keeps its id, and the id of any other follows from its content.
pub(crate) async fn announce_missing(
    app: &App,
    tenant: TenantId,
    order: OrderId,
    asked: Option<AuditEntry>,
) -> Result<Vec<(EventId, Announced)>, StoreError> {
    let (max_retry_count, asked) = (app.rules.max_retry_count, asked.map(Arc::new));
    with_tx(&app.tx, move |unit, _| {
        let asked = asked.clone();
        Box::pin(async move {
            let Some(order) = unit.order_by_id(tenant, order).await? else { return Ok(Vec::new()) };
            let (absent, _) = missing(unit, &order).await?;
            let mut announced = Vec::with_capacity(absent.len());
            let mut events = Vec::with_capacity(absent.len());
            for event in absent {
                let aggregate = event.aggregate(&order);
                let id = match known_id(unit, &event, &aggregate).await? {
                    Some(id) if !planted(Mutant::RepairWithNewId) => id,
                    Some(_) | None => repaired_id(&event, &aggregate)?,
                };
                events.push(NewEvent {
                    event_id: id.clone(),
                    event_type: event.event_type().as_str().to_owned(),
                    aggregate,
                    aggregate_seq: event.aggregate_seq,
                    payload: event.body.to_json(),
                    metadata: EventMetadata {
                        trace_id: Some(format!("repair-{}", order.id)),
                        ..EventMetadata::default()
                    },
                    occurred_at: event.at,
                    max_retry_count,
                });
                announced.push((id, event));
            }
            if !events.is_empty() {
                append(unit, &events).await?;
                if let Some(asked) = asked {
                    let changed = events.len().try_into().unwrap_or(u64::MAX);
                    unit.audit(&AuditEntry { matched: changed, changed, ..AuditEntry::clone(&asked) })
                        .await?;
                }
            }
            Ok(announced)
        })
    })
    .await
}

/// The id under which a consumer knows the event.
async fn known_id(
    unit: &mut dyn UnitOfWork,
    event: &Announced,
    aggregate: &AggregateRef,
) -> Result<Option<EventId>, StoreError> {
    let consumed = unit.consumed_about(std::slice::from_ref(aggregate)).await?;
    let name = event.event_type().as_str();
    let ids: BTreeSet<EventId> = consumed
        .into_iter()
        .filter(|row| row.event_type == name && row.aggregate_seq == event.aggregate_seq)
        .map(|row| row.event_id)
        .collect();
    Ok(ids.into_iter().next())
}

/// The id of an event that nobody knows: the same, whoever announces it.
fn repaired_id(event: &Announced, aggregate: &AggregateRef) -> Result<EventId, StoreError> {
    let id = format!("repair:{}:{}:{}", event.event_type(), aggregate.id, event.aggregate_seq);
    id.parse().map_err(|error| StoreError::Backend(Box::new(error)))
}
