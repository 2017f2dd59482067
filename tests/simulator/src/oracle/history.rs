//! Orders, payments and products match their events.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use handover_events::OutboxStatus;
use handover_outbox::ports::{DeadLetter, DeadLetterStatus, OutboxRow, StoreError};
use marketplace::consumers::INVENTORY_QUEUE;
use marketplace_domain::{
    EventKind, Order, OrderId, OrderStatus, Payment, PaymentStatus, ProductId, ProductStatus, Refund,
    RefundStatus,
};

use super::{Checker, is_second};
use crate::actors::journal::ListedProduct;

/// Each change of an order has its event, except those of [`silent_changes`]. The status of the order is that of its
/// last event.
pub(super) async fn check(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
) -> Result<(), StoreError> {
    let mut changes: Vec<&&OutboxRow> = rows
        .iter()
        .filter(|row| row.event_type != EventKind::OrderTimeout.as_str() && !is_second(row, rows))
        .collect();
    // The rows are sorted by `aggregate_seq`, not by id: a lost event may have been appended again after later events.
    changes.sort_by_key(|row| row.aggregate_seq);
    let payments = checker.view.payments_of(order.tenant, &[order.id]).await?;
    let silent = silent_changes(checker, order).await?;
    let numbers: Vec<i64> = changes.iter().map(|row| row.aggregate_seq).collect();
    let ascending = numbers.first() == Some(&1) && numbers.is_sorted_by(|a, b| a < b);
    let is_whole = numbers.last().is_some_and(|last| *last <= order.version);
    let is_explained = silent.contains(&(order.version - numbers.len() as i64));
    if !ascending || !is_whole || !is_explained {
        let version = order.version;
        checker.violation(format!(
            "order {} has version {version}, {silent:?} changes without an event, and the events {numbers:?}",
            order.id
        ));
    }
    let last_status = changes.last().and_then(|row| announced_status(row));
    if last_status.as_deref() != Some(order.status.as_str()) {
        checker.violation(format!(
            "order {} is {}, but its events end with {last_status:?}",
            order.id, order.status
        ));
    }
    if order.status == OrderStatus::Pending {
        checker.violation(format!("order {} is pending, long after its deadline", order.id));
    }
    let was_paid = changes.iter().any(|row| row.event_type == EventKind::OrderPaid.as_str());
    let used = payments.iter().filter(|it| it.status == PaymentStatus::Success && !it.refund_due).count();
    if used != usize::from(was_paid) {
        checker.violation(format!(
            "order {} has an ORDER_PAID: {was_paid}, but {used} successful payments without a due refund",
            order.id
        ));
    }
    for payment in &payments {
        check_payment(checker, payment);
    }
    if payments.iter().any(|payment| payment.refund_due) {
        checker.evidence.faults.cover(|coverage| coverage.situation("late payment"));
    }
    for row in rows {
        cover_situations(checker, row);
    }
    Ok(())
}

/// Possible numbers of changes of the order that have no event of the order: the begin and the failure of a refund.
async fn silent_changes(checker: &mut Checker<'_>, order: &Order) -> Result<RangeInclusive<i64>, StoreError> {
    let refunds = checker.view.refunds_of(order.tenant, &[order.id]).await?;
    let captures = checker.view.captures_of(order.tenant, &[order.id]).await?;
    let mut least = 0;
    let mut most = 0;
    let requested = |refund: &&Refund| refund.cause.is_requested();
    for refund in refunds.iter().filter(requested) {
        let is_of_order = order.refund == Some(refund.id);
        // The money came back after the order had been refunded. A refund that was requested since does not change the
        // order; one that had failed before did.
        let is_freed = captures.iter().any(|capture| capture.refund_due && capture.is_refunded_by(refund));
        let (fewest, greatest) = match refund.status {
            RefundStatus::Processing | RefundStatus::Success => (1, 1),
            // The order stays refunded if the refund fails after it had succeeded.
            RefundStatus::Failed if refund.payouts > 0 => (1, 1),
            RefundStatus::Failed => (2, 2),
        };
        least += if is_freed && !is_of_order { 0 } else { fewest };
        most += greatest;
    }
    Ok(least..=most)
}

fn announced_status(row: &OutboxRow) -> Option<String> {
    let status = match row.event_type.parse::<EventKind>().ok()?.as_str() {
        "ORDER_CREATED" => OrderStatus::Pending,
        "ORDER_PAID" => OrderStatus::Paid,
        "ORDER_CANCELLED" => OrderStatus::Cancelled,
        "ORDER_REFUNDED" => OrderStatus::Refunded,
        _ => {
            let (_, status) = row.payload.split_once("\"newStatus\":\"")?;
            return status.split_once('"').map(|(status, _)| status.to_owned());
        }
    };
    Some(status.as_str().to_owned())
}

/// Checks that a successful or failed payment has exactly one event.
pub(super) fn check_payment(checker: &mut Checker<'_>, payment: &Payment) {
    let announced: Vec<&str> = checker
        .rows
        .iter()
        .filter(|row| row.aggregate.kind == "Payment" && row.aggregate.id == payment.id.get())
        .map(|row| row.event_type.as_str())
        .collect();
    let expected: &[&[&str]] = match payment.status {
        PaymentStatus::Processing => &[&[]],
        PaymentStatus::Success => &[&["PAYMENT_SUCCEEDED"], &["PAYMENT_FAILED", "PAYMENT_SUCCEEDED"]],
        PaymentStatus::Failed => &[&["PAYMENT_FAILED"]],
    };
    if !expected.contains(&announced.as_slice()) {
        checker.violation(format!(
            "payment {} is {}, but its events are {announced:?}",
            payment.id, payment.status
        ));
    }
}

/// A product is sold if and only if it has exactly one live order.
pub(super) async fn check_products(checker: &mut Checker<'_>, orders: &[Order]) -> Result<(), StoreError> {
    let mut live: BTreeMap<ProductId, Vec<OrderId>> = BTreeMap::new();
    for order in orders.iter().filter(|order| !order.status.frees_product()) {
        live.entry(order.product).or_default().push(order.id);
    }
    for listed in checker.evidence.journal.products() {
        let Some(product) = checker.view.product_by_id(listed.tenant, listed.id).await? else {
            checker.violation(format!("product {} does not exist", listed.id));
            continue;
        };
        let orders = live.get(&listed.id).map(Vec::as_slice).unwrap_or_default();
        if orders.len() > 1 || (orders.len() == 1) != (product.status == ProductStatus::Sold) {
            checker.violation(format!(
                "product {} is {} with the live orders {orders:?}",
                listed.id, product.status
            ));
        }
        if checker.evidence.recovered {
            check_listing(checker, listed, orders).await?;
        }
    }
    Ok(())
}

/// When every event has been applied, the seller's listing must match the live orders.
async fn check_listing(
    checker: &mut Checker<'_>,
    listed: ListedProduct,
    live: &[OrderId],
) -> Result<(), StoreError> {
    let discarded = |dead_letter: &DeadLetter| {
        dead_letter.status == DeadLetterStatus::Discarded && dead_letter.queue == INVENTORY_QUEUE
    };
    let entries = checker.view.listing_of(listed.tenant, listed.seller).await?;
    let Some(entry) = entries.iter().find(|entry| entry.product == listed.id) else { return Ok(()) };
    if entry.taken_by.as_ref() != live.first() && !checker.dead_letters.values().any(discarded) {
        let taken = entry.taken_by;
        checker.violation(format!(
            "the listing of product {} shows order {taken:?}, but the live orders are {live:?}",
            listed.id
        ));
    }
    Ok(())
}

fn cover_situations(checker: &Checker<'_>, row: &OutboxRow) {
    let has = |text: &str| row.payload.contains(text);
    let situations = [
        (row.status == OutboxStatus::Failed, "FAILED event"),
        (row.retry_count > 0, "publish after a failed publish"),
        (has("\"reason\":\"timeout\""), "order cancelled by its deadline"),
        (has("\"newStatus\":\"completed\""), "completed order"),
        (
            has("\"newStatus\":\"completed\"") && row.metadata.user_id.is_none(),
            "order completed automatically",
        ),
        (has("\"reason\":\"seller\""), "order declined by its seller"),
    ];
    let reached = situations.into_iter().filter(|(reached, _)| *reached);
    checker.evidence.faults.cover(|coverage| reached.for_each(|(_, place)| coverage.situation(place)));
}
