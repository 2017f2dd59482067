//! Promises about orders and products.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use marketplace::consumers::TIMEOUT_QUEUE;
use marketplace_domain::{
    CancelReason, EventKind, Order, OrderId, OrderStatus, Payment, PaymentStatus, ProductId, ProductStatus,
};

use super::super::journal::{ClientOrder, Step};
use super::super::plan::AssetCoverage;
use super::promise::{Evidence, Promise, Violations, promise, seconds};

/// Promise: every request had a response, and each response was a success or an expected conflict.
pub(super) fn responses(evidence: &Evidence<'_>) -> Promise {
    let mut violations = Violations::default();
    evidence.clients.unexpected.iter().for_each(|unexpected| violations.add(|| unexpected.clone()));
    promise(
        "every response is expected",
        "0 unexpected".to_owned(),
        format!("{} unexpected", violations.count),
        &violations,
    )
}

/// Promise: the acknowledged orders are in the database, and no others.
pub(super) fn acknowledged(evidence: &Evidence<'_>) -> Promise {
    let acknowledged = &evidence.clients.orders;
    let stored = &evidence.database.orders;
    let mut violations = Violations::default();
    for id in acknowledged.keys().filter(|id| !stored.contains_key(id)) {
        violations.add(|| format!("order {id}: acknowledged but not in the table"));
    }
    for id in stored.keys().filter(|id| !acknowledged.contains_key(id)) {
        violations.add(|| format!("order {id}: in the table but never acknowledged"));
    }
    if stored.len() != evidence.expected.orders {
        violations.add(|| {
            format!("{} orders in the table; {} were acknowledged", stored.len(), acknowledged.len())
        });
    }
    let (promised, found) =
        (format!("{} orders", evidence.expected.orders), format!("{} orders", stored.len()));
    promise("no acknowledged order is lost", promised, found, &violations)
}

/// Promise: the state of each order matches the responses that its clients received.
pub(super) fn states(evidence: &Evidence<'_>) -> Promise {
    let mut violations = Violations::default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, client_order) in &evidence.clients.orders {
        // A missing order is skipped: it violates the promise "no acknowledged order is lost".
        let Some(order) = evidence.database.orders.get(id) else { continue };
        let payments = evidence.database.payments.get(id).map(Vec::as_slice).unwrap_or_default();
        if matches_responses(client_order, order, payments) {
            *counts.entry(order.status.as_str()).or_insert(0) += 1;
        } else {
            violations.add(|| {
                format!("order {id}: last acknowledged step {:?}, status {}", client_order.step, order.status)
            });
        }
    }
    let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let promised = format!("{} as acknowledged", evidence.clients.orders.len());
    promise("order states match the responses", promised, counts.join(", "), &violations)
}

fn matches_responses(client_order: &ClientOrder, order: &Order, payments: &[Payment]) -> bool {
    let same_parties = (client_order.product, client_order.buyer, client_order.seller)
        == (order.product, order.buyer, order.seller);
    let is_cancelled = |reason| order.status == OrderStatus::Cancelled && order.cancel_reason == Some(reason);
    let refused =
        client_order.cover != AssetCoverage::Sufficient && is_cancelled(CancelReason::AssetLockFailed);
    // The service closed the order because it was not paid in time or because a lock was rejected.
    let closed = is_cancelled(CancelReason::Timeout) || refused;
    let refund_due =
        payments.iter().any(|payment| payment.status == PaymentStatus::Success && payment.refund_due);
    let covered = client_order.cover != AssetCoverage::Insufficient;
    same_parties
        && match client_order.step {
            Step::Placed => closed,
            // A payment that arrived after the order was closed has to be refunded.
            Step::Paid => {
                (covered && order.status == OrderStatus::Paid && !refund_due) || (closed && refund_due)
            }
            Step::Shipped => covered && order.status == OrderStatus::Shipped,
            Step::Completed => covered && order.status == OrderStatus::Completed,
            Step::Cancelled => is_cancelled(CancelReason::Buyer),
            Step::PaymentFailed => {
                is_cancelled(CancelReason::PaymentFailed) || is_cancelled(CancelReason::Timeout)
            }
            Step::PaidAfterCancel => is_cancelled(CancelReason::Buyer) && refund_due,
            Step::Refunded => order.status == OrderStatus::Refunded && !refund_due,
        }
}

/// Promise: unpaid orders were cancelled after their deadline and within the limit, and every timeout message was
/// consumed.
pub(super) fn closed_in_time(evidence: &Evidence<'_>) -> Promise {
    let expected = evidence.expected;
    let pending = TimeDelta::from_std(expected.payment_timeout).unwrap_or_default();
    let (mut violations, mut latest, mut count) = (Violations::default(), Duration::ZERO, 0);
    for order in evidence.database.orders.values() {
        if order.status == OrderStatus::Pending {
            violations.add(|| format!("order {}: not cancelled", order.id));
        }
        if order.cancel_reason != Some(CancelReason::Timeout) {
            continue;
        }
        count += 1;
        match (order.update_time - order.create_time - pending).to_std() {
            Ok(late) => {
                latest = latest.max(late);
                if late > expected.cancel_delay_limit {
                    violations.add(|| {
                        format!("order {}: cancelled {} after its deadline", order.id, seconds(late))
                    });
                }
            }
            Err(_) => violations.add(|| format!("order {}: cancelled before its deadline", order.id)),
        }
    }
    let kind = EventKind::OrderTimeout.as_str();
    for event in evidence.database.events.iter().filter(|event| event.event_type == kind) {
        let key = (TIMEOUT_QUEUE.to_owned(), event.event_id.clone());
        if evidence.injected.message_counts.get(&key).is_none_or(|counts| counts.acked == 0) {
            violations
                .add(|| format!("order {}: {kind} message not consumed from its queue", event.aggregate.id));
        }
    }
    let is_conflict = |id: &OrderId| {
        let order = evidence.database.orders.get(id);
        order.is_some_and(|order| order.cancel_reason == Some(CancelReason::AssetLockFailed))
    };
    let placed = evidence.clients.orders.iter().filter(|(_, order)| order.step == Step::Placed);
    let unpaid = placed.filter(|(id, _)| !is_conflict(id)).count();
    let promised =
        format!("{unpaid} cancelled, at most {} after the deadline", seconds(expected.cancel_delay_limit));
    let found = format!("{count} cancelled, the latest {} after its deadline", seconds(latest));
    promise("unpaid orders are cancelled in time", promised, found, &violations)
}

/// Promise: exactly one of the buyers who order the same lamp at the same moment gets it.
pub(super) fn one_lamp(evidence: &Evidence<'_>) -> Promise {
    let (rush, lamp_buyers) = (&evidence.clients.rush, evidence.expected.lamp_buyers);
    let orders = evidence.database.orders.values().filter(|order| Some(order.product) == rush.lamp).count();
    let mut violations = Violations::default();
    if orders != 1 {
        violations.add(|| format!("{orders} orders of the only lamp in the table, expected 1"));
    }
    if (rush.won.len(), rush.refused) != (1, lamp_buyers.saturating_sub(1)) {
        violations.add(|| {
            format!(
                "{} orders of the only lamp accepted, {} refused; expected 1 accepted",
                rush.won.len(),
                rush.refused
            )
        });
    }
    let text = |won: usize, refused: usize| format!("{won} of {lamp_buyers} buyers, {refused} refused");
    promise(
        "one buyer gets the lamp",
        text(1, lamp_buyers.saturating_sub(1)),
        text(rush.won.len(), rush.refused),
        &violations,
    )
}

/// Promise: a sold product has exactly one live order, every other product is on sale, and the sellers' listings agree.
pub(super) fn sold_once(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut live: BTreeMap<ProductId, Vec<OrderId>> = BTreeMap::new();
    for order in database.orders.values() {
        match order.status {
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => {
                live.entry(order.product).or_default().push(order.id);
            }
            OrderStatus::Cancelled | OrderStatus::Refunded => {}
        }
    }
    let listed: BTreeMap<ProductId, Option<OrderId>> =
        database.listings.values().flatten().map(|entry| (entry.product, entry.taken_by)).collect();
    let (mut violations, mut sold) = (Violations::default(), 0);
    for (id, seller) in &evidence.clients.products {
        let orders = live.get(id).map(Vec::as_slice).unwrap_or_default();
        let status = database.products.get(id).filter(|product| product.seller == *seller).map(|p| p.status);
        match (status, orders) {
            (Some(ProductStatus::Sold), [_]) => sold += 1,
            (Some(ProductStatus::OnSale), []) => {}
            _ => violations
                .add(|| format!("product {id}: status {status:?} with {} live orders", orders.len())),
        }
        if listed.get(id).copied().flatten().as_ref() != orders.first() {
            violations.add(|| format!("product {id}: wrong entry in its seller's listing"));
        }
    }
    let count = |sold: usize| format!("{sold} sold, {} on sale", evidence.clients.products.len() - sold);
    promise("a product is sold once", count(live.len()), count(sold), &violations)
}
