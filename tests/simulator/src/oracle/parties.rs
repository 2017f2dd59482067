//! What buyers and sellers must find when all is quiet: each told once of each change, in order, and each end of an order
//! counted once.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::Case;

/// What the changes of each buyer's credit add up to.
pub(super) type Counted = BTreeMap<(TenantId, UserId), CreditCounts>;

pub(super) async fn check(
    case: &mut Case<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    counted: &mut Counted,
) -> Result<(), StoreError> {
    check_notifications(case, order, rows).await?;
    check_credit(case, order, rows, counted).await
}

/// Every change of status is told to the buyer and to the seller, once and in order.
async fn check_notifications(
    case: &mut Case<'_>,
    order: &Order,
    rows: &[&OutboxRow],
) -> Result<(), StoreError> {
    let due = case.due("status-sync", rows, &[EventType::OrderStatusChanged]);
    let all = case.view.notifications_about(order.tenant, order.id).await?;
    for (side, user) in [(OrderSide::Buyer, order.buyer), (OrderSide::Seller, order.seller)] {
        let own = all.iter().filter(|it| it.side == side && it.recipient == user);
        let told: Vec<EventId> = own.map(|it| it.event_id.clone()).collect();
        case.compare("status-sync", order, &due, &told);
    }
    let facts: BTreeSet<String> = case.facts(&due).into_iter().collect();
    if all.len() != 2 * facts.len() {
        case.breaks(format!("status-sync told {} of order {}", all.len(), order.id));
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
async fn check_credit(
    case: &mut Case<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    counted: &mut Counted,
) -> Result<(), StoreError> {
    let types = [EventType::OrderCancelled, EventType::OrderStatusChanged];
    let mut due = case.due("buyer-credit", rows, &types);
    let steps: BTreeMap<&EventId, CreditStep> =
        rows.iter().filter_map(|row| Some((&row.event_id, counts_as(row)?))).collect();
    due.retain(|event| steps.contains_key(event));
    let changes = case.view.credit_changes(order.tenant, order.id).await?;
    let had: Vec<EventId> = changes.iter().map(|change| change.event_id.clone()).collect();
    case.compare("buyer-credit", order, &due, &had);
    for change in &changes {
        if change.buyer != order.buyer || steps.get(&change.event_id) != Some(&change.step) {
            case.breaks(format!("buyer-credit counted {change:?} of order {}", order.id));
        }
        let counts = counted.entry((order.tenant, change.buyer)).or_default();
        *counts = counts.and(change.step);
    }
    Ok(())
}

/// Each buyer's counts are the sum of the changes, and the score is theirs.
pub(super) async fn check_scores(case: &mut Case<'_>, counted: &Counted) -> Result<(), StoreError> {
    for ((tenant, buyer), counts) in counted {
        let credit = case.view.credit_of(*tenant, *buyer).await?;
        if credit.as_ref().map(|credit| (credit.counts, credit.score)) != Some((*counts, counts.score())) {
            case.breaks(format!(
                "the credit of buyer {buyer} is {credit:?}, the changes add up to {counts:?}"
            ));
        }
    }
    Ok(())
}
