//! Notifications and credit: buyer and seller are notified once of each change, in the sequence of the changes, and
//! the end of an order changes the buyer's credit once.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::{EventId, TenantId};
use handover_outbox::ports::{OutboxRow, StoreError};
use marketplace::ports::{Notification, OrderSide};
use marketplace_domain::{
    CancelReason, CreditCounts, CreditOutcome, EventKind, Order, OrderStatus, Refund, RefundCause, UserId,
};

use super::Checker;

/// Sum of the credit changes of each buyer.
pub(super) type CreditTotals = BTreeMap<(TenantId, UserId), CreditCounts>;

pub(super) async fn check(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    totals: &mut CreditTotals,
) -> Result<(), StoreError> {
    check_notifications(checker, order, rows).await?;
    check_credit(checker, order, rows, totals).await
}

/// Buyer and seller are notified once of each change of status, in the sequence of the changes.
async fn check_notifications(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
) -> Result<(), StoreError> {
    let expected = checker.expected_events("status-sync", rows, &[EventKind::OrderStatusChanged]);
    let all = checker.view.notifications_about(order.tenant, &[order.id]).await?;
    let (of_declines, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.new_status.frees_product());
    check_decline(checker, order, &of_declines).await?;
    for (side, user) in [(OrderSide::Buyer, order.buyer), (OrderSide::Seller, order.seller)] {
        let own = all.iter().filter(|it| it.side == side && it.recipient == user);
        let notified: Vec<EventId> = own.map(|it| it.event_id.clone()).collect();
        checker.compare("status-sync", order, &expected, &notified);
    }
    let facts: BTreeSet<String> = checker.facts(&expected).into_iter().collect();
    if all.len() != 2 * facts.len() {
        checker.violation(format!(
            "status-sync wrote {} notifications for order {}, not two for each fact",
            all.len(),
            order.id
        ));
    }
    Ok(())
}

/// The buyer is notified once of a decline of the seller, and of no other cancellation or refund.
async fn check_decline(
    checker: &mut Checker<'_>,
    order: &Order,
    notifications: &[Notification],
) -> Result<(), StoreError> {
    let refunds = checker.view.refunds_of(order.tenant, &[order.id]).await?;
    let is_refund_of_seller =
        |refund: &Refund| order.refund == Some(refund.id) && refund.cause == RefundCause::Seller;
    let is_declined = match order.status {
        OrderStatus::Cancelled => order.cancel_reason == Some(CancelReason::Seller),
        OrderStatus::Refunded => refunds.iter().any(is_refund_of_seller),
        OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => false,
    };
    let expected = is_declined.then_some((OrderSide::Buyer, order.buyer, order.status));
    let written = notifications.iter().map(|it| (it.side, it.recipient, it.new_status));
    if !written.eq(expected) {
        let what = format!(
            "order {} is {}, but the notifications of declines are {notifications:?}",
            order.id, order.status
        );
        checker.violation(what);
    }
    Ok(())
}

/// The credit change of an event, derived from its payload independently of the handler.
fn credit_step_of(row: &OutboxRow) -> Option<CreditOutcome> {
    let has = |text: &str| row.payload.contains(text);
    match row.event_type.as_str() {
        "ORDER_CANCELLED" if has("\"reason\":\"buyer\"") => Some(CreditOutcome::CancelledByBuyer),
        "ORDER_CANCELLED" if has("\"reason\":\"timeout\"") => Some(CreditOutcome::CancelledByTimeout),
        "ORDER_STATUS_CHANGED" if has("\"newStatus\":\"completed\"") => Some(CreditOutcome::Completed),
        _ => None,
    }
}

/// Checks that each event that ends the order changed the buyer's credit once, in the sequence of the events. Adds the
/// changes to the buyer's total.
async fn check_credit(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    totals: &mut CreditTotals,
) -> Result<(), StoreError> {
    let types = [EventKind::OrderCancelled, EventKind::OrderStatusChanged];
    let mut expected = checker.expected_events("buyer-credit", rows, &types);
    let steps: BTreeMap<&EventId, CreditOutcome> =
        rows.iter().filter_map(|row| Some((&row.event_id, credit_step_of(row)?))).collect();
    expected.retain(|event| steps.contains_key(event));
    let changes = checker.view.credit_changes(order.tenant, &[order.id]).await?;
    let applied: Vec<EventId> = changes.iter().map(|change| change.event_id.clone()).collect();
    checker.compare("buyer-credit", order, &expected, &applied);
    for change in &changes {
        if change.buyer != order.buyer || steps.get(&change.event_id) != Some(&change.step) {
            checker.violation(format!("buyer-credit has the wrong change {change:?} for order {}", order.id));
        }
        let counts = totals.entry((order.tenant, change.buyer)).or_default();
        *counts = counts.and(change.step);
    }
    Ok(())
}

/// Each buyer's counts are the sum of the changes, and the score matches the counts.
pub(super) async fn check_scores(checker: &mut Checker<'_>, totals: &CreditTotals) -> Result<(), StoreError> {
    for ((tenant, buyer), counts) in totals {
        let credit = checker.view.credit_of(*tenant, *buyer).await?;
        if credit.as_ref().map(|credit| (credit.counts, credit.score)) != Some((*counts, counts.score())) {
            checker.violation(format!(
                "the credit of buyer {buyer} is {credit:?}, the changes sum to {counts:?}"
            ));
        }
    }
    Ok(())
}
