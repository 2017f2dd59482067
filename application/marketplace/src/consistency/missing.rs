//! Events that were never announced, and announcing them.

use std::sync::Arc;

use handover_events::{AggregateRef, EventId, TenantId};
use marketplace_domain::{AggregateType, Order, OrderId};

use super::{Announced, expected};
use crate::App;
use crate::mutants::{Mutant, planted};
use crate::ports::{MarketView, Work};
use handover_events::Trace;
use handover_outbox::ports::{AuditEntry, Consumed, EventMetadata, NewEvent, OutboxRow, StoreError};
use handover_outbox::{append, with_tx};

/// What is missing in the outbox of an order, its payments and its refunds; and what is there.
pub(crate) async fn missing<V: MarketView + ?Sized>(
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
    let rows = view.outbox_view().outbox_about(&aggregates).await?;
    let mut absent = expected(order, &payments, &refunds);
    absent.retain(|event| !rows.iter().any(|row| event.is_in(row, order)));
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
            let (absent, rows) = missing(unit, &order).await?;
            let mut announced = Vec::with_capacity(absent.len());
            let mut events = Vec::with_capacity(absent.len());
            for event in absent {
                let aggregate = event.aggregate(&order);
                let known = known(unit, &event, &aggregate).await?;
                let trace = trace_of(&event, &aggregate, &rows, known.as_ref(), order.id);
                let id = match known {
                    Some(known) if !planted(Mutant::RepairWithNewId) => known.event_id,
                    Some(_) | None => repaired_id(&event, &aggregate)?,
                };
                events.push(NewEvent {
                    event_id: id.clone(),
                    event_type: event.event_type().as_str().to_owned(),
                    aggregate,
                    aggregate_seq: event.aggregate_seq,
                    payload: event.body.to_json(),
                    metadata: EventMetadata {
                        trace_id: Some(trace.trace_id),
                        traceparent: trace.traceparent,
                        ..EventMetadata::default()
                    },
                    occurred_at: event.at,
                    max_retry_count,
                });
                announced.push((id, event));
            }
            if !events.is_empty() {
                append(unit.outbox(), &events).await?;
                if let Some(asked) = asked {
                    let changed = events.len().try_into().unwrap_or(u64::MAX);
                    unit.outbox()
                        .audit(&AuditEntry { matched: changed, changed, ..AuditEntry::clone(&asked) })
                        .await?;
                }
            }
            Ok(announced)
        })
    })
    .await
}

/// What a consumer knows of the event: of several the one with the smallest id, as two that repair at once must agree.
async fn known(
    unit: &mut Work,
    event: &Announced,
    aggregate: &AggregateRef,
) -> Result<Option<Consumed>, StoreError> {
    let consumed = unit.outbox().consumed_about(std::slice::from_ref(aggregate)).await?;
    let name = event.event_type().as_str();
    let is_it = |row: &Consumed| row.event_type == name && row.aggregate_seq == event.aggregate_seq;
    Ok(consumed.into_iter().filter(is_it).min_by(|left, right| left.event_id.cmp(&right.event_id)))
}

/// The trace of the request that caused the event: that of the payment or refund, of another event of the same change, or of
/// the consume log. Where the request left none of them, the repair has a trace of its own.
fn trace_of(
    event: &Announced,
    aggregate: &AggregateRef,
    rows: &[OutboxRow],
    known: Option<&Consumed>,
    order: OrderId,
) -> Trace {
    let is_same_change =
        |row: &&OutboxRow| row.aggregate == *aggregate && row.aggregate_seq == event.aggregate_seq;
    let of_change = || rows.iter().find(is_same_change).map(OutboxRow::trace);
    let of_log = || known.map(|known| Trace { trace_id: known.trace_id.clone(), traceparent: None });
    let own = || Trace { trace_id: format!("repair-{order}"), traceparent: None };
    event.trace.clone().or_else(of_change).or_else(of_log).unwrap_or_else(own)
}

/// The id of an event that nobody knows: the same, whoever announces it.
fn repaired_id(event: &Announced, aggregate: &AggregateRef) -> Result<EventId, StoreError> {
    let id = format!("repair:{}:{}:{}", event.event_type(), aggregate.id, event.aggregate_seq);
    id.parse().map_err(|error| StoreError::Backend(Box::new(error)))
}
