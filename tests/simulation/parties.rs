//! What buyers and sellers must find when all is quiet: each told once of each change, in order, and each end of an order
//! counted once.

use std::collections::BTreeMap;

use handover_application::ports::*;
use handover_domain::*;

use super::oracle::{TENANT, expected};

/// Every change of status is told to the buyer and to the seller, once and in order.
pub async fn check_notifications(
    view: &mut dyn View,
    order: &Order,
    rows: &[&OutboxRow],
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    let expected = expected(view, "status-sync", rows, &[EventType::OrderStatusChanged.as_str()]).await?;
    let all = view.notifications_about(TENANT, order.id).await?;
    for (side, user) in [(OrderSide::Buyer, order.buyer), (OrderSide::Seller, order.seller)] {
        let own: Vec<_> = all.iter().filter(|it| it.side == side && it.recipient == user).collect();
        let told: Vec<EventId> = own.iter().map(|it| it.event_id.clone()).collect();
        if told != expected {
            broken.push(format!(
                "status-sync told the {side:?} {told:?} of order {}, expected {expected:?}",
                order.id
            ));
        }
        if !own.is_sorted_by(|a, b| a.aggregate_seq < b.aggregate_seq) {
            broken.push(format!("status-sync told events of order {} out of order", order.id));
        }
    }
    if all.len() != 2 * expected.len() {
        broken.push(format!("status-sync told {} of order {}", all.len(), order.id));
    }
    Ok(())
}

/// What an event counts as, read from its payload and not from the handler.
fn counts_as(row: &OutboxRow) -> Option<CreditStep> {
    let has = |text: &str| row.payload.contains(text);
    match row.event_type.as_str() {
        "ORDER_CANCELLED" if has("\"reason\":\"buyer\"") => Some(CreditStep::CancelledByBuyer),
        "ORDER_CANCELLED" if has("\"reason\":\"timeout\"") => Some(CreditStep::CancelledByTimeout),
        "ORDER_STATUS_CHANGED" if has("\"newStatus\":\"completed\"") => Some(CreditStep::Completed),
        _ => None,
    }
}

/// Every end of an order that counts is counted once, in order; the counts are added to those of the buyer.
pub async fn check_credit(
    view: &mut dyn View,
    order: &Order,
    rows: &[&OutboxRow],
    counted: &mut BTreeMap<UserId, CreditCounts>,
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    let types = [EventType::OrderCancelled.as_str(), EventType::OrderStatusChanged.as_str()];
    let applied = expected(view, "buyer-credit", rows, &types).await?;
    let step = |row: &&&OutboxRow| Some((row.event_id.clone(), counts_as(row)?));
    let expected: Vec<_> =
        rows.iter().filter(|row| applied.contains(&row.event_id)).filter_map(|row| step(&row)).collect();
    let changes = view.credit_changes(TENANT, order.id).await?;
    let seen: Vec<_> = changes.iter().map(|change| (change.event_id.clone(), change.step)).collect();
    if seen != expected || changes.iter().any(|change| change.buyer != order.buyer) {
        broken.push(format!("buyer-credit counted {changes:?} of order {}, expected {expected:?}", order.id));
    }
    for change in &changes {
        let counts = counted.entry(change.buyer).or_default();
        *counts = counts.and(change.step);
    }
    Ok(())
}

/// Each buyer's counts are the sum of the changes, and the score is theirs.
pub async fn check_scores(
    view: &mut dyn View,
    counted: &BTreeMap<UserId, CreditCounts>,
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    for (buyer, counts) in counted {
        let credit = view.credit_of(TENANT, *buyer).await?;
        if credit.as_ref().map(|credit| (credit.counts, credit.score)) != Some((*counts, counts.score())) {
            broken
                .push(format!("the credit of buyer {buyer} is {credit:?}, the changes add up to {counts:?}"));
        }
    }
    Ok(())
}
