//! Rows of the outbox that somebody inserts by hand (004 Q5): the event of a fact once more, an event that its order
//! contradicts, an event that can never be sent.

use std::sync::Arc;

use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::{EventMetadata, NewEvent, OutboxFilter, OutboxRow, StoreError};
use handover_outbox::with_tx;
use marketplace::App;
use marketplace_domain::{
    AggregateType, CancelReason, EventBody, EventType, Order, OrderCancelled, OrderFacts, OrderId, OrderPaid,
    OrderStatus, OrderStatusChanged,
};

use crate::faults::Faults;
use crate::oracle::is_ordered;

const BY_HAND: &str = "by-hand-";
const CONTRADICTION: &str = "by-hand-contradiction-";
const UNSENDABLE: &str = "by-hand-unsendable-";

/// An order that nobody places: no id gets that far.
const NO_ORDER: i64 = 9_000_000_000;

/// Whether somebody inserted this event by hand.
pub(crate) fn is_by_hand(event: &EventId) -> bool {
    event.as_str().starts_with(BY_HAND)
}

/// Whether this event announces what never happened, or can never be sent.
pub(crate) fn is_misleading(event: &EventId) -> bool {
    is_contradiction(event) || is_unsendable(event)
}

/// Whether this event announces what its order contradicts for ever.
pub(crate) fn is_contradiction(event: &EventId) -> bool {
    event.as_str().starts_with(CONTRADICTION)
}

/// Whether the row of this event can never be sent.
pub(crate) fn is_unsendable(event: &EventId) -> bool {
    event.as_str().starts_with(UNSENDABLE)
}

/// Somebody takes an event for lost and inserts it once more, under a new id.
pub(crate) async fn repeat(app: &App, faults: &Faults, tenant: TenantId) {
    let Some(row) = some_row(app, faults, tenant).await else { return };
    let event = NewEvent {
        event_id: new_id(faults, BY_HAND),
        event_type: row.event_type.clone(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: row.aggregate_seq,
        payload: row.payload.clone(),
        metadata: row.metadata.clone(),
        occurred_at: row.create_time,
        max_retry_count: row.max_retry_count,
    };
    faults
        .note("an operator", || format!("inserts {} {} as {}", row.event_type, row.event_id, event.event_id));
    if insert(app, event).await {
        faults.cover(|coverage| coverage.place("a second event of a fact"));
    }
}

/// Somebody inserts an event of something that did not happen, or one that nobody can read.
pub(crate) async fn mislead(app: &App, faults: &Faults, tenant: TenantId) {
    let Some(row) = some_row(app, faults, tenant).await else { return };
    let Ok(id) = OrderId::try_from(row.aggregate.id) else { return };
    let Ok(mut view) = app.view().await else { return };
    let Ok(Some(order)) = view.order_by_id(tenant, id).await else { return };
    drop(view);
    let (event, place) = if faults.dice.permille(400) {
        (unsendable(faults, &order, &row), "a row that can never be sent")
    } else {
        let Some(event) = contradiction(faults, &order, &row) else { return };
        (event, "an event that its order contradicts")
    };
    faults.note("an operator", || {
        format!("inserts {} {} of order {}", event.event_type, event.event_id, event.aggregate.id)
    });
    if insert(app, event).await {
        faults.cover(|coverage| coverage.place(place));
    }
}

/// An event of an order, of a type that has a place in the order of its events.
async fn some_row(app: &App, faults: &Faults, tenant: TenantId) -> Option<OutboxRow> {
    let mut view = app.view().await.ok()?;
    let filter = OutboxFilter { tenant: Some(tenant), ..OutboxFilter::default() };
    let mut rows = view.outbox_view().outbox_page(&filter, None, 50).await.ok()?;
    drop(view);
    rows.retain(|row| {
        let is_of_order = row.aggregate.kind == AggregateType::Order.as_str();
        is_of_order && is_ordered(row) && !is_misleading(&row.event_id)
    });
    faults.dice.pick(&rows).cloned()
}

/// An event that stays wrong whatever the order does from here on.
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
    let nobody = OrderId::try_from(NO_ORDER + order.id.get()).expect("a positive number is an id");
    let of_nobody = OrderPaid { order: OrderFacts { order_id: nobody, ..order.facts() }, ..paid.clone() };
    let mut wrong = vec![EventBody::OrderPaid(of_nobody)];
    if order.was_paid() {
        wrong.push(EventBody::OrderCancelled(cancelled));
    } else if order.status == OrderStatus::Cancelled {
        wrong.extend([EventBody::OrderPaid(paid), EventBody::OrderStatusChanged(shipped)]);
    }
    let body = faults.dice.pick(&wrong)?;
    let event = by_hand(new_id(faults, CONTRADICTION), row, (body.event_type().as_str(), body.to_json()));
    Some(NewEvent { aggregate: AggregateRef { id: body.aggregate_id(), ..row.aggregate.clone() }, ..event })
}

/// A row that no relay can make a message of.
fn unsendable(faults: &Faults, order: &Order, row: &OutboxRow) -> NewEvent {
    let paid = EventType::OrderPaid.as_str();
    let about_another = format!("{{\"orderId\":{}}}", NO_ORDER + order.id.get());
    let wrong = [
        (paid, "[]".to_owned()),
        (paid, "no JSON".to_owned()),
        (paid, about_another),
        ("ORDER_LOST", row.payload.clone()),
    ];
    let wrong = faults.dice.pick(&wrong).cloned().unwrap_or((paid, String::new()));
    by_hand(new_id(faults, UNSENDABLE), row, wrong)
}

/// A row with the defaults of its columns, about the aggregate of another row.
fn by_hand(event_id: EventId, row: &OutboxRow, (event_type, payload): (&str, String)) -> NewEvent {
    NewEvent {
        event_id,
        event_type: event_type.to_owned(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: 0,
        payload,
        metadata: EventMetadata::default(),
        occurred_at: row.create_time,
        max_retry_count: row.max_retry_count,
    }
}

fn new_id(faults: &Faults, prefix: &str) -> EventId {
    format!("{prefix}{:x}", faults.dice.below(u64::MAX)).parse().expect("a legal id")
}

/// Whether the row is certainly there.
async fn insert(app: &App, event: NewEvent) -> bool {
    let events = Arc::new([event]);
    let inserted = with_tx::<_, _, (), StoreError, _>(&app.tx, move |unit, attempt| {
        let events = Arc::clone(&events);
        Box::pin(async move {
            let [event] = events.as_ref();
            let id = std::slice::from_ref(&event.event_id);
            if attempt.may_have_happened() && !unit.outbox().outbox_by_event(id).await?.is_empty() {
                return Ok(());
            }
            unit.outbox().append(events.as_ref()).await
        })
    });
    inserted.await.is_ok()
}
