//! Orders, payments and products against the events that announce them.

use std::collections::BTreeMap;

use handover_events::*;
use handover_outbox::ports::*;
use marketplace::queues::INVENTORY_QUEUE;
use marketplace_domain::*;

use super::{Case, is_second};
use crate::actors::journal::Listed;

/// Each change of an order has its events, and the order stands where they say.
pub(super) async fn check(case: &mut Case<'_>, order: &Order, rows: &[&OutboxRow]) -> Result<(), StoreError> {
    let mut changes: Vec<&&OutboxRow> = rows
        .iter()
        .filter(|row| row.event_type != EventType::OrderTimeout.as_str() && !is_second(row, rows))
        .collect();
    // One that was lost is announced later than those that follow it.
    changes.sort_by_key(|row| row.aggregate_seq);
    let payments = case.view.payments_of(order.tenant, order.id).await?;
    let silent = silent_changes(case, order, &payments).await?;
    let numbers: Vec<i64> = changes.iter().map(|row| row.aggregate_seq).collect();
    let ascending = numbers.first() == Some(&1) && numbers.is_sorted_by(|a, b| a < b);
    let is_whole = numbers.last().is_some_and(|last| *last <= order.version);
    if !ascending || !is_whole || numbers.len() as i64 + silent != order.version {
        let version = order.version;
        case.breaks(format!(
            "order {} has version {version}, {silent} silent ones, events {numbers:?}",
            order.id
        ));
    }
    let told = changes.last().and_then(|row| reached(row));
    if told.as_deref() != Some(order.status.as_str()) {
        case.breaks(format!("order {} is {} and its events end with {told:?}", order.id, order.status));
    }
    if order.status == OrderStatus::Pending {
        case.breaks(format!("order {} is pending, long after its deadline", order.id));
    }
    let was_paid = changes.iter().any(|row| row.event_type == EventType::OrderPaid.as_str());
    let used = payments.iter().filter(|it| it.status == PaymentStatus::Success && !it.refund_due).count();
    if used != usize::from(was_paid) {
        case.breaks(format!("order {} was paid: {was_paid}, and keeps {used} payments", order.id));
    }
    for payment in &payments {
        check_payment(case, payment);
    }
    if payments.iter().any(|payment| payment.refund_due) {
        case.evidence.faults.cover(|coverage| coverage.place("a payment that came too late"));
    }
    for row in rows {
        note_places(case, row);
    }
    Ok(())
}

/// How many changes of the order announce nothing: the beginning of a refund, and its failure.
async fn silent_changes(case: &mut Case<'_>, order: &Order, payments: &[Payment]) -> Result<i64, StoreError> {
    let refunds = case.view.refunds_of(order.tenant, order.id).await?;
    let paid_with = |refund: &&Refund| payments.iter().any(|it| it.id == refund.payment && !it.refund_due);
    let changes = refunds.iter().filter(paid_with).map(|refund| match refund.status {
        RefundStatus::Processing | RefundStatus::Success => 1,
        RefundStatus::Failed => 2,
    });
    Ok(changes.sum())
}

/// The status that an event announces.
fn reached(row: &OutboxRow) -> Option<String> {
    let status = match row.event_type.parse::<EventType>().ok()? {
        EventType::OrderCreated => OrderStatus::Pending,
        EventType::OrderPaid => OrderStatus::Paid,
        EventType::OrderCancelled => OrderStatus::Cancelled,
        EventType::OrderRefunded => OrderStatus::Refunded,
        EventType::OrderStatusChanged
        | EventType::OrderTimeout
        | EventType::PaymentSucceeded
        | EventType::PaymentFailed
        | EventType::RefundSucceeded
        | EventType::RefundFailed
        | EventType::InvoiceGenerated => {
            let (_, status) = row.payload.split_once("\"newStatus\":\"")?;
            return status.split_once('"').map(|(status, _)| status.to_owned());
        }
    };
    Some(status.as_str().to_owned())
}

/// A payment that is settled was announced so, once.
fn check_payment(case: &mut Case<'_>, payment: &Payment) {
    let announced: Vec<&str> = case
        .rows
        .iter()
        .filter(|row| row.aggregate.kind == "Payment" && row.aggregate.id == payment.id.get())
        .map(|row| row.event_type.as_str())
        .collect();
    let expected: &[&str] = match payment.status {
        PaymentStatus::Processing => &[],
        PaymentStatus::Success => &["PAYMENT_SUCCEEDED"],
        PaymentStatus::Failed => &["PAYMENT_FAILED"],
    };
    if announced != expected {
        case.breaks(format!(
            "payment {} is {} and was announced as {announced:?}",
            payment.id, payment.status
        ));
    }
}

/// Sold to one, or nobody's.
pub(super) async fn check_products(case: &mut Case<'_>, orders: &[Order]) -> Result<(), StoreError> {
    let mut live: BTreeMap<ProductId, Vec<OrderId>> = BTreeMap::new();
    for order in orders.iter().filter(|order| !order.status.frees_product()) {
        live.entry(order.product).or_default().push(order.id);
    }
    for listed in case.evidence.journal.products() {
        let Some(product) = case.view.product_by_id(listed.tenant, listed.id).await? else {
            case.breaks(format!("product {} is lost", listed.id));
            continue;
        };
        let orders = live.get(&listed.id).map(Vec::as_slice).unwrap_or_default();
        if orders.len() > 1 || (orders.len() == 1) != (product.status == ProductStatus::Sold) {
            case.breaks(format!(
                "product {} is {} with the live orders {orders:?}",
                listed.id, product.status
            ));
        }
        if case.evidence.tidied {
            check_listing(case, listed, orders).await?;
        }
    }
    Ok(())
}

/// When every event has had its effect, the seller's listing is what it would be had they come one after the other.
async fn check_listing(case: &mut Case<'_>, listed: Listed, live: &[OrderId]) -> Result<(), StoreError> {
    let discarded =
        |letter: &DeadLetter| letter.status == DeadLetterStatus::Discarded && letter.queue == INVENTORY_QUEUE;
    let entries = case.view.listing_of(listed.tenant, listed.seller).await?;
    let Some(entry) = entries.iter().find(|entry| entry.product == listed.id) else { return Ok(()) };
    if entry.taken_by.as_ref() != live.first() && !case.letters.values().any(discarded) {
        let taken = entry.taken_by;
        case.breaks(format!(
            "the listing of product {} has it taken by {taken:?}, live is {live:?}",
            listed.id
        ));
    }
    Ok(())
}

fn note_places(case: &Case<'_>, row: &OutboxRow) {
    let has = |text: &str| row.payload.contains(text);
    let places = [
        (row.status == OutboxStatus::Failed, "a FAILED event"),
        (row.retry_count > 0, "a publish after a failed one"),
        (has("\"reason\":\"timeout\""), "an order closed by its deadline"),
        (has("\"newStatus\":\"completed\""), "a completed order"),
    ];
    let reached = places.into_iter().filter(|(reached, _)| *reached);
    case.evidence.faults.cover(|coverage| reached.for_each(|(_, place)| coverage.place(place)));
}
