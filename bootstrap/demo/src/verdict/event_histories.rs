//! The promise that every change has its event: the events of orders, payments, refunds and invoices match the history that their
//! rows imply.

use std::collections::BTreeMap;

use handover_outbox::ports::OutboxRow;
use marketplace_domain::{
    AggregateType, EventKind, Order, OrderId, OrderStatus, Payment, PaymentStatus, Refund, RefundStatus,
};

use super::super::database_snapshot::InvoiceRows;
use super::promise::{Evidence, Promise, Violations, promise};

/// The events of each aggregate of this type, by aggregate id; the events of one aggregate are sorted by outbox row id.
fn events_by_aggregate(events: &[OutboxRow], kind: AggregateType) -> BTreeMap<i64, Vec<&OutboxRow>> {
    let mut found: BTreeMap<i64, Vec<&OutboxRow>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.aggregate.kind == kind.as_str()) {
        found.entry(event.aggregate.id.number()).or_default().push(event);
    }
    found
}

/// Promise: the events of each order, payment, refund and invoice are exactly those that lead to its current state.
pub(super) fn no_gaps(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let (mut violations, mut changes) = (Violations::default(), 0);
    let of_orders = events_by_aggregate(&database.events, AggregateType::Order);
    for order in database.orders.values() {
        let actual = of_orders.get(&order.id.get()).map(Vec::as_slice).unwrap_or_default();
        let actual: Vec<(&str, i64)> =
            actual.iter().map(|event| (event.event_type.as_str(), event.aggregate_seq)).collect();
        let expected = expected_events(order, requested_refunds(evidence, order.id));
        changes += expected.len();
        if actual != expected {
            violations
                .add(|| format!("order {}, {}: {actual:?}, expected {expected:?}", order.id, order.status));
        }
    }
    let of_payments = events_by_aggregate(&database.events, AggregateType::Payment);
    let of_invoices = database.invoices.iter().flat_map(|rows| &rows.money.payments);
    for payment in database.payments.values().flatten().chain(of_invoices) {
        let actual = of_payments.get(&payment.id.get()).map(Vec::as_slice).unwrap_or_default();
        let actual: Vec<(&str, i64)> =
            actual.iter().map(|event| (event.event_type.as_str(), event.aggregate_seq)).collect();
        let expected = expected_payment_events(payment);
        changes += expected.len();
        if actual != expected {
            violations.add(|| {
                format!("payment {}, {}: {actual:?}, expected {expected:?}", payment.id, payment.status)
            });
        }
    }
    let of_refunds = events_by_aggregate(&database.events, AggregateType::Refund);
    let of_invoices = database.invoices.iter().flat_map(|rows| &rows.money.refunds);
    for refund in database.assets.refunds.values().flatten().chain(of_invoices) {
        let actual = of_refunds.get(&refund.id.get()).map(Vec::as_slice).unwrap_or_default();
        let actual: Vec<(&str, i64)> =
            actual.iter().map(|event| (event.event_type.as_str(), event.aggregate_seq)).collect();
        let expected = expected_refund_events(refund);
        changes += expected.len();
        if actual != expected {
            violations.add(|| {
                format!("refund {}, {}: {actual:?}, expected {expected:?}", refund.id, refund.status)
            });
        }
    }
    let generated = events_by_aggregate(&database.events, AggregateType::Invoice);
    for InvoiceRows { invoice, .. } in &database.invoices {
        changes += 1;
        let events = generated.get(&invoice.id.get()).map_or(0, Vec::len);
        if events != 1 {
            violations.add(|| format!("invoice {}: {events} INVOICE_GENERATED events", invoice.id));
        }
    }
    let found = format!("{} events", database.market_events().count());
    promise("no change without its event", format!("{changes} events"), found, &violations)
}

/// The refunds requested for an order, without automatic refunds of money that pays no order.
fn requested_refunds<'a>(evidence: &Evidence<'a>, order: OrderId) -> Vec<&'a Refund> {
    let assets = &evidence.database.assets;
    let captures = assets.captures.get(&order).map(Vec::as_slice).unwrap_or_default();
    let is_due = |refund: &Refund| captures.iter().any(|it| it.refund_due && it.is_refunded_by(refund));
    assets.refunds.get(&order).into_iter().flatten().filter(|refund| !is_due(refund)).collect()
}

/// The events, with sequence numbers, that lead to the state of an order. The start and the failure of a refund change
/// the order's version without an event of the order; the refund has its own events.
fn expected_events(order: &Order, refunds: Vec<&Refund>) -> Vec<(&'static str, i64)> {
    let steps: &[EventKind] = match order.status {
        OrderStatus::Pending => &[],
        OrderStatus::Paid => &[EventKind::OrderPaid],
        OrderStatus::Shipped => &[EventKind::OrderPaid, EventKind::OrderStatusChanged],
        OrderStatus::Completed => {
            &[EventKind::OrderPaid, EventKind::OrderStatusChanged, EventKind::OrderStatusChanged]
        }
        OrderStatus::Cancelled => &[EventKind::OrderCancelled],
        OrderStatus::Refunded => &[EventKind::OrderPaid, EventKind::OrderRefunded],
    };
    let without_event: i64 = refunds
        .iter()
        .map(|refund| match refund.status {
            RefundStatus::Failed => 2,
            RefundStatus::Processing | RefundStatus::Success => 1,
        })
        .sum();
    // Version 1 has two events: the creation and the payment deadline.
    let mut expected: Vec<(&str, i64)> =
        vec![(EventKind::OrderCreated.as_str(), 1), (EventKind::OrderTimeout.as_str(), 1)];
    let mut seq = 1;
    for (number, step) in steps.iter().enumerate() {
        seq += if number == 1 { 1 + without_event } else { 1 };
        expected.push((step.as_str(), seq));
    }
    if steps.len() == 1 {
        seq += without_event;
    }
    if seq != order.version {
        expected.push(("an event of any type", order.version));
    }
    expected
}

fn expected_refund_events(refund: &Refund) -> Vec<(&'static str, i64)> {
    match refund.status {
        RefundStatus::Processing => Vec::new(),
        RefundStatus::Success => vec![(EventKind::RefundSucceeded.as_str(), refund.version)],
        RefundStatus::Failed => vec![(EventKind::RefundFailed.as_str(), refund.version)],
    }
}

fn expected_payment_events(payment: &Payment) -> Vec<(&'static str, i64)> {
    match payment.status {
        PaymentStatus::Processing => Vec::new(),
        // The gateway reported the payment as failed first.
        PaymentStatus::Success if payment.version == 3 => {
            vec![(EventKind::PaymentFailed.as_str(), 2), (EventKind::PaymentSucceeded.as_str(), 3)]
        }
        PaymentStatus::Success => vec![(EventKind::PaymentSucceeded.as_str(), payment.version)],
        PaymentStatus::Failed => vec![(EventKind::PaymentFailed.as_str(), payment.version)],
    }
}
