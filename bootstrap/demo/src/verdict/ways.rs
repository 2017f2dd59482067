//! The promise that every change has its event: the ways of orders, payments and refunds, as their rows say they were.

use std::collections::BTreeMap;

use handover_outbox::ports::OutboxRow;
use marketplace_domain::{
    AggregateType, EventType, Order, OrderId, OrderStatus, Payment, PaymentStatus, Refund, RefundStatus,
};

use super::{Against, Evidence, Promise, promise};

/// The events of one aggregate, in the order of their rows.
fn about(events: &[OutboxRow], kind: AggregateType) -> BTreeMap<i64, Vec<&OutboxRow>> {
    let mut found: BTreeMap<i64, Vec<&OutboxRow>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.aggregate.kind == kind.as_str()) {
        found.entry(event.aggregate.id).or_default().push(event);
    }
    found
}

/// The events of each order, payment and refund tell its whole way, without a gap.
pub(super) fn without_gaps(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let (mut against, mut changes) = (Against::default(), 0);
    let of_orders = about(&books.events, AggregateType::Order);
    for order in books.orders.values() {
        let told = of_orders.get(&order.id.get()).map(Vec::as_slice).unwrap_or_default();
        let told: Vec<(&str, i64)> =
            told.iter().map(|event| (event.event_type.as_str(), event.aggregate_seq)).collect();
        let way = way_of(order, begun(evidence, order.id));
        changes += way.len();
        if told != way {
            against.add(|| format!("order {}, {}: {told:?}", order.id, order.status));
        }
    }
    let of_payments = about(&books.events, AggregateType::Payment);
    for payment in books.payments.values().flatten() {
        let told = of_payments.get(&payment.id.get()).map(Vec::as_slice).unwrap_or_default();
        let told: Vec<(&str, i64)> =
            told.iter().map(|event| (event.event_type.as_str(), event.aggregate_seq)).collect();
        let way = way_of_payment(payment);
        changes += way.len();
        if told != way {
            against.add(|| format!("payment {}, {}: {told:?}", payment.id, payment.status));
        }
    }
    let of_refunds = about(&books.events, AggregateType::Refund);
    for refund in books.assets.refunds.values().flatten() {
        let told = of_refunds.get(&refund.id.get()).map(Vec::as_slice).unwrap_or_default();
        let told: Vec<(&str, i64)> =
            told.iter().map(|event| (event.event_type.as_str(), event.aggregate_seq)).collect();
        let way = way_of_refund(refund);
        changes += way.len();
        if told != way {
            against.add(|| format!("refund {}, {}: {told:?}", refund.id, refund.status));
        }
    }
    let found = format!("{} events", books.events.len());
    promise("no change without its event", format!("{changes} events"), found, &against)
}

/// The refunds that were begun of an order: those of a payment that it needed.
fn begun<'a>(evidence: &Evidence<'a>, order: OrderId) -> Vec<&'a Refund> {
    let books = evidence.books;
    let payments = books.payments.get(&order).map(Vec::as_slice).unwrap_or_default();
    let is_due = |refund: &Refund| payments.iter().any(|it| it.id == refund.payment && it.refund_due);
    books.assets.refunds.get(&order).into_iter().flatten().filter(|refund| !is_due(refund)).collect()
}

/// The events of an order that stands there, with their places. That a refund is begun, and that it failed, changes the
/// order too, and the refund has events of its own.
fn way_of(order: &Order, refunds: Vec<&Refund>) -> Vec<(&'static str, i64)> {
    let steps: &[EventType] = match order.status {
        OrderStatus::Pending => &[],
        OrderStatus::Paid => &[EventType::OrderPaid],
        OrderStatus::Shipped => &[EventType::OrderPaid, EventType::OrderStatusChanged],
        OrderStatus::Completed => {
            &[EventType::OrderPaid, EventType::OrderStatusChanged, EventType::OrderStatusChanged]
        }
        OrderStatus::Cancelled => &[EventType::OrderCancelled],
        OrderStatus::Refunded => &[EventType::OrderPaid, EventType::OrderRefunded],
    };
    let unannounced: i64 = refunds
        .iter()
        .map(|refund| match refund.status {
            RefundStatus::Failed => 2,
            RefundStatus::Processing | RefundStatus::Success => 1,
        })
        .sum();
    // The first change announces the order and its deadline, the second that it is paid or cancelled.
    let mut way: Vec<(&str, i64)> =
        vec![(EventType::OrderCreated.as_str(), 1), (EventType::OrderTimeout.as_str(), 1)];
    let mut seq = 1;
    for (number, step) in steps.iter().enumerate() {
        seq += if number == 1 { 1 + unannounced } else { 1 };
        way.push((step.as_str(), seq));
    }
    if steps.len() == 1 {
        seq += unannounced;
    }
    if seq != order.version {
        way.push(("a change that nothing announces", order.version));
    }
    way
}

fn way_of_refund(refund: &Refund) -> Vec<(&'static str, i64)> {
    match refund.status {
        RefundStatus::Processing => Vec::new(),
        RefundStatus::Success => vec![(EventType::RefundSucceeded.as_str(), refund.version)],
        RefundStatus::Failed => vec![(EventType::RefundFailed.as_str(), refund.version)],
    }
}

fn way_of_payment(payment: &Payment) -> Vec<(&'static str, i64)> {
    match payment.status {
        PaymentStatus::Processing => Vec::new(),
        PaymentStatus::Success => vec![(EventType::PaymentSucceeded.as_str(), payment.version)],
        PaymentStatus::Failed => vec![(EventType::PaymentFailed.as_str(), payment.version)],
    }
}
