//! Comparison with a reference run: the committed commands are repeated sequentially without faults, and both runs must
//! end in the same state.

use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::ports::{DeadLetterFilter, DeadLetterStatus, OutboxRow, StoreError};
use marketplace::ports::GatewayReportFilter;
use marketplace_domain::{
    Asset, Balance, CancelReason, Coupon, CouponStatus, HoldStatus, Money, OrderStatus, PaymentId,
    PaymentStatus, ProductStatus, Purse, RefundStatus, ReportOutcome,
};

use super::reference_run::{BoxError, OrderKey, ReferenceRun};
use super::{ALL, Evidence, is_second, money};
use crate::actors;
use crate::row_kinds::is_invalid;

/// Differences between the final states of the run and of its reference run; none if the runs cannot be compared.
pub(crate) async fn differences(evidence: &Evidence) -> Result<Vec<String>, BoxError> {
    let discarded =
        DeadLetterFilter { status: Some(DeadLetterStatus::Discarded), ..DeadLetterFilter::default() };
    if !evidence.store.view().await?.outbox_view().dead_letters_page(&discarded, None, 1).await?.is_empty() {
        // Discarded events have no effects, so the final states differ as intended: the runs are not compared.
        return Ok(Vec::new());
    }
    if has_refused_locks(evidence).await? || has_contradictory_reports(evidence).await? {
        return Ok(Vec::new());
    }
    let mut reference = ReferenceRun::begin(evidence).await?;
    let rows = evidence.rows().await?;
    let all: Vec<&OutboxRow> = rows.iter().collect();
    for row in rows.iter().filter(|row| !is_second(row, &all) && !is_invalid(&row.event_id)) {
        if let Err(error) = reference.repeat(evidence, row).await {
            if has_refused_locks(&reference.evidence).await? {
                break;
            }
            reference.end().await;
            return Err(error);
        }
    }
    reference.wait_until_idle().await?;
    if has_refused_locks(&reference.evidence).await? {
        reference.end().await;
        return Ok(Vec::new());
    }
    let mut differences = Vec::new();
    for (order, copy) in &reference.orders {
        let expected = final_state(&reference.evidence, *copy, &reference.original_orders()).await?;
        let actual = final_state(evidence, *order, &BTreeMap::new()).await?;
        if actual != expected {
            differences
                .push(format!("order {} ends as {actual:?}, in the reference run as {expected:?}", order.1));
        }
    }
    differences.extend(balance_differences(evidence, &reference).await?);
    if differences.is_empty() && !reference.orders.is_empty() {
        evidence.faults.cover(|coverage| coverage.situation("final state of the reference run"));
    }
    reference.end().await;
    Ok(differences)
}

/// Whether an asset lock was refused in this run. Which of two orders gets the lock depends on the sequence of their
/// events, which is not defined, so a run with a refused lock is not compared.
async fn has_refused_locks(evidence: &Evidence) -> Result<bool, StoreError> {
    let mut view = evidence.store.view().await?;
    let orders = money::orders(view.as_mut(), evidence.app.tx.now()).await?;
    Ok(orders.iter().any(|order| order.cancel_reason == Some(CancelReason::AssetLockFailed)))
}

/// Whether the gateway captured more than the payments require or contradicted itself. The reference run repeats one report
/// per payment and refund, so such a run is not compared.
async fn has_contradictory_reports(evidence: &Evidence) -> Result<bool, StoreError> {
    let mut view = evidence.store.view().await?;
    let reports = view.gateway_reports_page(GatewayReportFilter::default(), None, ALL).await?;
    let is_contradictory = |outcome| match outcome {
        ReportOutcome::WrongAmount
        | ReportOutcome::SecondCapture
        | ReportOutcome::RefundFailedAfterSuccess => true,
        ReportOutcome::Recorded
        | ReportOutcome::OrderPaid
        | ReportOutcome::InvoicePaid
        | ReportOutcome::PaymentFailed
        | ReportOutcome::LatePayment
        | ReportOutcome::TransactionConflict
        | ReportOutcome::PaymentFailedAfterSuccess
        | ReportOutcome::Refunded
        | ReportOutcome::RefundedAfterShipping
        | ReportOutcome::RefundedTwice
        | ReportOutcome::RefundFailed
        | ReportOutcome::SettledByOperator
        | ReportOutcome::NotFound
        | ReportOutcome::Mismatch
        | ReportOutcome::Unreadable => false,
    };
    let failed: BTreeSet<Option<PaymentId>> = reports
        .iter()
        .filter(|it| it.effect.outcome == ReportOutcome::PaymentFailed)
        .map(|it| it.effect.payment)
        .collect();
    Ok(reports.iter().any(|it| {
        let succeeded = matches!(it.effect.outcome, ReportOutcome::OrderPaid | ReportOutcome::LatePayment);
        is_contradictory(it.effect.outcome) || (succeeded && failed.contains(&it.effect.payment))
    }))
}

/// Differences of balances and coupons. A coupon that expired counts as unused.
async fn balance_differences(
    evidence: &Evidence,
    reference: &ReferenceRun,
) -> Result<Vec<String>, StoreError> {
    let mut view = evidence.store.view().await?;
    let mut reference_view = reference.evidence.store.view().await?;
    let mut differences = Vec::new();
    for (tenant, user) in
        actors::tenants().into_iter().flat_map(|it| actors::buyers().map(move |user| (it, user)))
    {
        for purse in [Purse::Wallet, Purse::Points] {
            let has = |it: Option<Balance>| it.map_or((0, 0, 0), |it| (it.available, it.frozen, it.debt));
            let actual = has(view.balance_of(tenant, user, purse).await?);
            let expected = has(reference_view.balance_of(tenant, user, purse).await?);
            if actual != expected {
                differences.push(format!(
                    "the {purse} of buyer {user} ends as {actual:?}, in the reference run as {expected:?}"
                ));
            }
        }
    }
    for ((tenant, id), copy) in &reference.coupons {
        let is_used = |it: Option<Coupon>| it.is_some_and(|it| it.status == CouponStatus::Used);
        let actual = is_used(view.coupon_by_id(*tenant, *id).await?);
        if actual != is_used(reference_view.coupon_by_id(*tenant, *copy).await?) {
            differences.push(format!(
                "coupon {id}: used = {actual} at the end of the run, but the opposite in the reference run"
            ));
        }
    }
    Ok(differences)
}

/// Final state of an order.
#[derive(Debug, PartialEq, Eq)]
struct FinalState {
    status: OrderStatus,
    is_sold: bool,
    payments: Vec<(PaymentStatus, bool)>,
    notifications: Vec<String>,
    shipments: usize,
    holds: Vec<(Asset, HoldStatus, bool)>,
    refunds: Vec<(RefundStatus, Money)>,
    credit_changes: Vec<String>,
    /// The order that occupies the product in the seller's listing.
    taken_by: Option<OrderKey>,
}

/// Reads the final state of an order. `original_orders` maps orders of the reference run to those of the run.
async fn final_state(
    evidence: &Evidence,
    (tenant, id): OrderKey,
    original_orders: &BTreeMap<OrderKey, OrderKey>,
) -> Result<FinalState, BoxError> {
    let mut view = evidence.store.view().await?;
    let order = view.order_by_id(tenant, id).await?.ok_or("the order is missing")?;
    let product = view.product_by_id(tenant, order.product).await?;
    let payments = view.payments_of(tenant, &[id]).await?;
    let mut payments: Vec<_> = payments.iter().map(|it| (it.status, it.refund_due)).collect();
    // A payment without a report stays PROCESSING in the run, and is not repeated in the reference run.
    payments.retain(|(status, _)| *status != PaymentStatus::Processing);
    payments.sort_by_key(|(status, due)| (status.as_str(), *due));
    let holds = view.holds_of(tenant, &[id]).await?.into_iter();
    let mut refunds: Vec<_> =
        view.refunds_of(tenant, &[id]).await?.iter().map(|it| (it.status, it.amount)).collect();
    refunds.sort_by_key(|(status, amount)| (status.as_str(), *amount));
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let notifications = view.notifications_about(tenant, &[id]).await?.into_iter();
    let notifications =
        notifications.map(|it| format!("{:?} {} {} {}", it.side, it.recipient, it.old_status, it.new_status));
    let credit_changes = view.credit_changes(tenant, &[id]).await?.into_iter();
    let credit_changes = credit_changes.map(|it| format!("{} {:?}", it.buyer, it.step));
    let listing = view.listing_of(tenant, order.seller).await?;
    let entry = listing.iter().find(|entry| entry.product == order.product);
    let taken_by = entry.and_then(|entry| entry.taken_by).map(|order| (tenant, order));
    Ok(FinalState {
        status: order.status,
        is_sold: product.is_some_and(|product| product.status == ProductStatus::Sold),
        payments,
        notifications: sorted(notifications.collect()),
        shipments: match order.status {
            // Shipment tasks of a refunded order are not compared: timing decides if one was created before the
            // refund.
            OrderStatus::Refunded => 0,
            OrderStatus::Pending
            | OrderStatus::Paid
            | OrderStatus::Shipped
            | OrderStatus::Completed
            | OrderStatus::Cancelled => view.shipment_tasks(tenant, &[id]).await?.len(),
        },
        holds: holds.map(|it| (it.asset, it.status, it.reverted)).collect(),
        refunds,
        credit_changes: sorted(credit_changes.collect()),
        taken_by: taken_by.map(|at| original_orders.get(&at).copied().unwrap_or(at)),
    })
}
