//! Outbox rows inserted manually with SQL (document 004, Q5): a second event of a fact, an event that contradicts its
//! order, an unpublishable row.

use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::{EventMetadata, IdleConsumers, NewEvent, OutboxFilter, OutboxRow};
use handover_outbox::with_tx;
use marketplace::App;
use marketplace_domain::{
    AggregateType, CancelReason, EventBody, EventKind, Order, OrderCancelled, OrderFacts, OrderId, OrderPaid,
    OrderStatus, OrderStatusChanged,
};

use crate::faults::Faults;
use crate::row_kinds::{CONTRADICTION, MANUAL, UNPUBLISHABLE, is_invalid, is_ordered};

/// No order has this id or a greater one.
const FIRST_UNKNOWN_ORDER: i64 = 9_000_000_000;

/// Simulates an operator who inserts an existing event again under a new id, because the operator believes that the
/// original was lost.
pub(crate) async fn insert_second(app: &App, faults: &Faults, tenant: TenantId) {
    let Some(row) = random_row(app, faults, tenant).await else { return };
    let event = NewEvent {
        event_id: new_id(faults, MANUAL),
        event_type: row.event_type.clone(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: Some(row.aggregate_seq),
        payload: row.payload.clone(),
        metadata: row.metadata.clone(),
        occurred_at: row.create_time,
        max_retry_count: row.max_retry_count,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    };
    faults
        .note("an operator", || format!("inserts {} {} as {}", row.event_type, row.event_id, event.event_id));
    if insert(app, event).await {
        faults.cover(|coverage| coverage.situation("second event of a fact"));
    }
}

/// Inserts an event that contradicts its order, or an unpublishable row.
pub(crate) async fn insert_invalid(app: &App, faults: &Faults, tenant: TenantId) {
    let Some(row) = random_row(app, faults, tenant).await else { return };
    let Ok(id) = OrderId::try_from(&row.aggregate.id) else { return };
    let Ok(mut view) = app.tx.view().await else { return };
    let Ok(Some(order)) = view.order_by_id(tenant, id).await else { return };
    drop(view);
    let (event, place) = if faults.random.permille(400) {
        (unpublishable(faults, &order, &row), "unpublishable row")
    } else {
        let Some(event) = contradiction(faults, &order, &row) else { return };
        (event, "event that contradicts its order")
    };
    faults.note("an operator", || {
        format!("inserts {} {} of order {}", event.event_type, event.event_id, event.aggregate.id)
    });
    if insert(app, event).await {
        faults.cover(|coverage| coverage.situation(place));
    }
}

/// A random event of an order, of a type that is applied in the order of `aggregate_seq`.
async fn random_row(app: &App, faults: &Faults, tenant: TenantId) -> Option<OutboxRow> {
    let mut view = app.tx.view().await.ok()?;
    let filter = OutboxFilter { tenant: Some(tenant), ..OutboxFilter::default() };
    let mut rows = view.outbox_view().outbox_page(&filter, None, 50).await.ok()?;
    drop(view);
    rows.retain(|row| {
        let is_of_order = row.aggregate.kind == AggregateType::Order.as_str();
        is_of_order && is_ordered(row) && !is_invalid(&row.event_id)
    });
    faults.random.pick(&rows).cloned()
}

/// An event that contradicts its order whatever happens to the order later.
fn contradiction(faults: &Faults, order: &Order, row: &OutboxRow) -> Option<NewEvent> {
    let now = row.create_time;
    let paid =
        OrderPaid { order: order.facts(), pay_time: now, amount: order.payable, product: order.product };
    let shipped = OrderStatusChanged {
        order: order.facts(),
        old_status: OrderStatus::Paid,
        new_status: OrderStatus::Shipped,
        changed_at: now,
    };
    let cancelled = OrderCancelled {
        order: order.facts(),
        reason: CancelReason::Buyer,
        cancelled_at: now,
        product: order.product,
    };
    let unknown_order =
        OrderId::try_from(FIRST_UNKNOWN_ORDER + order.id.get()).expect("a positive number is a valid id");
    let of_unknown_order =
        OrderPaid { order: OrderFacts { order_id: unknown_order, ..order.facts() }, ..paid.clone() };
    let mut candidates = vec![EventBody::OrderPaid(of_unknown_order)];
    if order.was_paid() {
        candidates.push(EventBody::OrderCancelled(cancelled));
    } else if order.status == OrderStatus::Cancelled {
        candidates.extend([EventBody::OrderPaid(paid), EventBody::OrderStatusChanged(shipped)]);
    }
    let body = faults.random.pick(&candidates)?;
    let event = manual_row(new_id(faults, CONTRADICTION), row, (body.event_type().as_str(), body.to_json()));
    Some(NewEvent {
        aggregate: AggregateRef { id: body.aggregate_id().into(), ..row.aggregate.clone() },
        ..event
    })
}

/// A row that the relay cannot convert to a message.
fn unpublishable(faults: &Faults, order: &Order, row: &OutboxRow) -> NewEvent {
    let paid = EventKind::OrderPaid.as_str();
    let of_another_order = format!("{{\"orderId\":{}}}", FIRST_UNKNOWN_ORDER + order.id.get());
    let candidates = [
        (paid, "[]".to_owned()),
        (paid, "no JSON".to_owned()),
        (paid, of_another_order),
        ("ORDER_LOST", row.payload.clone()),
    ];
    let candidate = faults.random.pick(&candidates).cloned().unwrap_or((paid, String::new()));
    manual_row(new_id(faults, UNPUBLISHABLE), row, candidate)
}

/// A row with the column defaults, for the aggregate of another row.
fn manual_row(event_id: EventId, row: &OutboxRow, (event_type, payload): (&str, String)) -> NewEvent {
    NewEvent {
        event_id,
        event_type: event_type.to_owned(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: Some(0),
        payload,
        metadata: EventMetadata::default(),
        occurred_at: row.create_time,
        max_retry_count: row.max_retry_count,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

fn new_id(faults: &Faults, prefix: &str) -> EventId {
    format!("{prefix}{:x}", faults.random.below(u64::MAX)).parse().expect("a valid id")
}

/// Inserts a row; returns whether it is known to be committed.
async fn insert(app: &App, event: NewEvent) -> bool {
    let inserted = with_tx(&app.tx, [event], |unit, events, attempt| {
        Box::pin(async move {
            let [event] = events;
            let id = std::slice::from_ref(&event.event_id);
            if attempt.may_be_committed() && !unit.outbox().outbox_by_event(id).await?.is_empty() {
                return Ok(());
            }
            unit.outbox().append(events).await
        })
    });
    inserted.await.is_ok()
}
