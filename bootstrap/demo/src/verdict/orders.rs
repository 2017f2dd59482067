//! Promises about orders and products.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use marketplace::queues::TIMEOUT_QUEUE;
use marketplace_domain::{
    CancelReason, EventType, Order, OrderId, OrderStatus, Payment, PaymentStatus, ProductId, ProductStatus,
};

use super::super::journal::{Step, Told};
use super::super::plan::Cover;
use super::{Against, Evidence, Promise, promise, seconds};

/// Every answer was one that the rules explain.
pub(super) fn answers(evidence: &Evidence<'_>) -> Promise {
    let mut against = Against::default();
    evidence.told.odd.iter().for_each(|odd| against.add(|| odd.clone()));
    promise("every answer is explained", "0 others".to_owned(), format!("{} others", against.count), &against)
}

/// The orders that were acknowledged are there, and no others.
pub(super) fn kept(evidence: &Evidence<'_>) -> Promise {
    let (told, there) = (&evidence.told.orders, &evidence.books.orders);
    let mut against = Against::default();
    for id in told.keys().filter(|id| !there.contains_key(id)) {
        against.add(|| format!("order {id}, which was acknowledged and is gone"));
    }
    for id in there.keys().filter(|id| !told.contains_key(id)) {
        against.add(|| format!("order {id}, of which nobody was told"));
    }
    if there.len() != evidence.terms.orders {
        against.add(|| format!("their number: {} were acknowledged", told.len()));
    }
    let (promised, found) = (format!("{} orders", evidence.terms.orders), format!("{} orders", there.len()));
    promise("no acknowledged order is lost", promised, found, &against)
}

/// Each order stands where its client was told.
pub(super) fn states(evidence: &Evidence<'_>) -> Promise {
    let mut against = Against::default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, told) in &evidence.told.orders {
        // One that is gone is another promise.
        let Some(order) = evidence.books.orders.get(id) else { continue };
        let payments = evidence.books.payments.get(id).map(Vec::as_slice).unwrap_or_default();
        if is_as_told(told, order, payments) {
            *counts.entry(order.status.as_str()).or_insert(0) += 1;
        } else {
            against.add(|| {
                format!("order {id}: its client knows it as {:?}, it is {}", told.step, order.status)
            });
        }
    }
    let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let promised = format!("{} as told", evidence.told.orders.len());
    promise("orders stand where their clients were told", promised, counts.join(", "), &against)
}

fn is_as_told(told: &Told, order: &Order, payments: &[Payment]) -> bool {
    let parties = (told.product, told.buyer, told.seller) == (order.product, order.buyer, order.seller);
    let is_cancelled = |reason| order.status == OrderStatus::Cancelled && order.cancel_reason == Some(reason);
    let refused = told.cover != Cover::Enough && is_cancelled(CancelReason::AssetLockFailed);
    // Nobody paid in time, or a lock was refused.
    let closed = is_cancelled(CancelReason::Timeout) || refused;
    let owed = payments.iter().any(|payment| payment.status == PaymentStatus::Success && payment.refund_due);
    let covered = told.cover != Cover::TooLittle;
    parties
        && match told.step {
            Step::Placed => closed,
            // A payment that came after the order was closed is owed back.
            Step::Paid => (covered && order.status == OrderStatus::Paid && !owed) || (closed && owed),
            Step::Shipped => covered && order.status == OrderStatus::Shipped,
            Step::Completed => covered && order.status == OrderStatus::Completed,
            Step::Cancelled => is_cancelled(CancelReason::Buyer),
            Step::PaymentFailed => {
                is_cancelled(CancelReason::PaymentFailed) || is_cancelled(CancelReason::Timeout)
            }
            Step::PaidTooLate => is_cancelled(CancelReason::Buyer) && owed,
            Step::Refunded => order.status == OrderStatus::Refunded && !owed,
        }
}

/// Unpaid orders were closed after their deadline, and not long after; and the message of each deadline was taken.
pub(super) fn closed_in_time(evidence: &Evidence<'_>) -> Promise {
    let terms = evidence.terms;
    let pending = TimeDelta::from_std(terms.pending).unwrap_or_default();
    let (mut against, mut latest, mut count) = (Against::default(), Duration::ZERO, 0);
    for order in evidence.books.orders.values() {
        if order.status == OrderStatus::Pending {
            against.add(|| format!("order {}, which nothing closed", order.id));
        }
        if order.cancel_reason != Some(CancelReason::Timeout) {
            continue;
        }
        count += 1;
        match (order.update_time - order.create_time - pending).to_std() {
            Ok(late) => {
                latest = latest.max(late);
                if late > terms.bound {
                    against.add(|| format!("order {}, {} after its deadline", order.id, seconds(late)));
                }
            }
            Err(_) => against.add(|| format!("order {}, closed before its deadline", order.id)),
        }
    }
    let kind = EventType::OrderTimeout.as_str();
    for event in evidence.books.events.iter().filter(|event| event.event_type == kind) {
        let place = (TIMEOUT_QUEUE.to_owned(), event.event_id.clone());
        if evidence.happened.ways.get(&place).is_none_or(|way| way.acked == 0) {
            against.add(|| format!("order {}, whose {kind} nobody took from its queue", event.aggregate.id));
        }
    }
    let is_refused = |id: &OrderId| {
        let order = evidence.books.orders.get(id);
        order.is_some_and(|order| order.cancel_reason == Some(CancelReason::AssetLockFailed))
    };
    let placed = evidence.told.orders.iter().filter(|(_, told)| told.step == Step::Placed);
    let left = placed.filter(|(id, _)| !is_refused(id)).count();
    let promised = format!("{left} within {} of their deadline", seconds(terms.bound));
    let found = format!("{count}, the last {} after it", seconds(latest));
    promise("unpaid orders are closed in time", promised, found, &against)
}

/// Of all who wanted the lamp one has it.
pub(super) fn one_lamp(evidence: &Evidence<'_>) -> Promise {
    let (rush, crowd) = (&evidence.told.rush, evidence.terms.crowd);
    let orders = evidence.books.orders.values().filter(|order| Some(order.product) == rush.lamp).count();
    let mut against = Against::default();
    if orders != 1 {
        against.add(|| format!("{orders} orders of it in the table"));
    }
    if (rush.won.len(), rush.refused) != (1, crowd.saturating_sub(1)) {
        against.add(|| "what its buyers were told".to_owned());
    }
    let told =
        |won: usize, refused: usize| format!("{won} of {crowd} buyers, {refused} told that it is sold");
    promise(
        "one buyer gets the lamp",
        told(1, crowd.saturating_sub(1)),
        told(rush.won.len(), rush.refused),
        &against,
    )
}

/// What is sold has one order that lives, everything else is on sale, and the sellers' listings say the same.
pub(super) fn sold_once(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut live: BTreeMap<ProductId, Vec<OrderId>> = BTreeMap::new();
    for order in books.orders.values() {
        match order.status {
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => {
                live.entry(order.product).or_default().push(order.id);
            }
            OrderStatus::Cancelled | OrderStatus::Refunded => {}
        }
    }
    let listed: BTreeMap<ProductId, Option<OrderId>> =
        books.listings.values().flatten().map(|entry| (entry.product, entry.taken_by)).collect();
    let (mut against, mut sold) = (Against::default(), 0);
    for (id, seller) in &evidence.told.products {
        let orders = live.get(id).map(Vec::as_slice).unwrap_or_default();
        let status = books.products.get(id).filter(|product| product.seller == *seller).map(|p| p.status);
        match (status, orders) {
            (Some(ProductStatus::Sold), [_]) => sold += 1,
            (Some(ProductStatus::OnSale), []) => {}
            _ => against.add(|| format!("product {id} with {} live orders", orders.len())),
        }
        if listed.get(id).copied().flatten().as_ref() != orders.first() {
            against.add(|| format!("product {id} in its seller's listing"));
        }
    }
    let count = |sold: usize| format!("{sold} sold, {} on sale", evidence.told.products.len() - sold);
    promise("a product is sold once", count(live.len()), count(sold), &against)
}
