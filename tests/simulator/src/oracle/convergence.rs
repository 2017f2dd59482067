//! The same day without trouble: what was committed on the bad one is asked for once more, one thing after the other, in a
//! world where nothing fails. Both must end the same.

use std::collections::BTreeMap;

use handover_outbox::ports::*;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::good_day::{At, GoodDay};
use super::{Evidence, is_second, money};
use crate::actors;
use crate::actors::rows_by_hand::is_misleading;

/// What does not end as it does on a good day.
pub(crate) async fn differences(evidence: &Evidence) -> Result<Vec<String>, UseCaseError> {
    let discarded =
        DeadLetterFilter { status: Some(DeadLetterStatus::Discarded), ..DeadLetterFilter::default() };
    if !evidence.store.view().await?.outbox_view().dead_letters_page(&discarded, None, 1).await?.is_empty() {
        // What an operator gave up has no effect on purpose.
        return Ok(Vec::new());
    }
    if has_refused_locks(evidence).await? {
        return Ok(Vec::new());
    }
    let mut good = GoodDay::begin(evidence).await?;
    let rows = evidence.rows().await?;
    let all: Vec<&OutboxRow> = rows.iter().collect();
    for row in rows.iter().filter(|row| !is_second(row, &all) && !is_misleading(&row.event_id)) {
        if let Err(error) = good.repeat(evidence, row).await {
            if has_refused_locks(&good.evidence).await? {
                break;
            }
            good.end().await;
            return Err(error);
        }
    }
    good.rest().await?;
    if has_refused_locks(&good.evidence).await? {
        good.end().await;
        return Ok(Vec::new());
    }
    let mut differences = Vec::new();
    for (bad, same) in &good.orders {
        let expected = seen(&good.evidence, *same, &good.names()).await?;
        let ended = seen(evidence, *bad, &BTreeMap::new()).await?;
        if ended != expected {
            differences.push(format!("order {} ends as {ended:?}, on a good day as {expected:?}", bad.1));
        }
    }
    differences.extend(different_purses(evidence, &good).await?);
    if differences.is_empty() && !good.orders.is_empty() {
        evidence.faults.cover(|coverage| coverage.place("an end as on a good day"));
    }
    good.end().await;
    Ok(differences)
}

/// Whether a lock was refused on this day. Which of two orders finds enough depends on whose lock comes first, and that
/// is free on both days.
async fn has_refused_locks(evidence: &Evidence) -> Result<bool, StoreError> {
    let mut view = evidence.store.view().await?;
    let orders = money::orders(view.as_mut(), evidence.app.now()).await?;
    Ok(orders.iter().any(|order| order.cancel_reason == Some(CancelReason::AssetLockFailed)))
}

/// What buyers have in the end. A coupon that expired on the bad day is one that nobody used.
async fn different_purses(evidence: &Evidence, good: &GoodDay) -> Result<Vec<String>, StoreError> {
    let (mut bad, mut same) = (evidence.store.view().await?, good.evidence.store.view().await?);
    let mut differences = Vec::new();
    for (tenant, user) in
        actors::tenants().into_iter().flat_map(|it| actors::buyers().map(move |user| (it, user)))
    {
        for purse in [Purse::Wallet, Purse::Points] {
            let has = |it: Option<Balance>| it.map_or((0, 0, 0), |it| (it.available, it.frozen, it.debt));
            let ended = has(bad.balance_of(tenant, user, purse).await?);
            let expected = has(same.balance_of(tenant, user, purse).await?);
            if ended != expected {
                differences.push(format!(
                    "the {purse} of buyer {user} ends as {ended:?}, on a good day {expected:?}"
                ));
            }
        }
    }
    for ((tenant, id), twin) in &good.coupons {
        let is_used = |it: Option<Coupon>| it.is_some_and(|it| it.status == CouponStatus::Used);
        let ended = is_used(bad.coupon_by_id(*tenant, *id).await?);
        if ended != is_used(same.coupon_by_id(*tenant, *twin).await?) {
            differences.push(format!("coupon {id} is used: {ended}, and on a good day it is not so"));
        }
    }
    Ok(differences)
}

/// What everybody who has to do with an order finds in the end.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: OrderStatus,
    is_sold: bool,
    payments: Vec<(PaymentStatus, bool)>,
    told: Vec<String>,
    shipments: usize,
    holds: Vec<(Asset, HoldStatus, bool)>,
    refunds: Vec<(RefundStatus, Money)>,
    counted: Vec<String>,
    /// Who has its product in the seller's listing: this order, another one, or nobody.
    taken_by: Option<At>,
}

/// `names` gives the orders of a good day the names that they have on the bad one.
async fn seen(evidence: &Evidence, (tenant, id): At, names: &BTreeMap<At, At>) -> Result<Seen, UseCaseError> {
    let mut view = evidence.store.view().await?;
    let order = view.order_by_id(tenant, id).await?.ok_or(UseCaseError::NotFound { what: "order" })?;
    let product = view.product_by_id(tenant, order.product).await?;
    let payments = view.payments_of(tenant, id).await?;
    let mut payments: Vec<_> = payments.iter().map(|it| (it.status, it.refund_due)).collect();
    // One that was never reported is closed with its order on neither day, and was not asked for on the good one.
    payments.retain(|(status, _)| *status != PaymentStatus::Processing);
    payments.sort_by_key(|(status, due)| (status.as_str(), *due));
    let holds = view.holds_of(tenant, id).await?.into_iter();
    let mut refunds: Vec<_> =
        view.refunds_of(tenant, id).await?.iter().map(|it| (it.status, it.amount)).collect();
    refunds.sort_by_key(|(status, amount)| (status.as_str(), *amount));
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let told = view.notifications_about(tenant, id).await?.into_iter();
    let told = told.map(|it| format!("{:?} {} {} {}", it.side, it.recipient, it.old_status, it.new_status));
    let counted = view.credit_changes(tenant, id).await?.into_iter();
    let counted = counted.map(|it| format!("{} {:?}", it.buyer, it.step));
    let listing = view.listing_of(tenant, order.seller).await?;
    let entry = listing.iter().find(|entry| entry.product == order.product);
    let taken_by = entry.and_then(|entry| entry.taken_by).map(|order| (tenant, order));
    Ok(Seen {
        status: order.status,
        is_sold: product.is_some_and(|product| product.status == ProductStatus::Sold),
        payments,
        told: sorted(told.collect()),
        shipments: match order.status {
            // Whether the task was opened before the refund is a matter of time.
            OrderStatus::Refunded => 0,
            OrderStatus::Pending
            | OrderStatus::Paid
            | OrderStatus::Shipped
            | OrderStatus::Completed
            | OrderStatus::Cancelled => view.shipment_tasks(tenant, id).await?.len(),
        },
        holds: holds.map(|it| (it.asset, it.status, it.reverted)).collect(),
        refunds,
        counted: sorted(counted.collect()),
        taken_by: taken_by.map(|at| names.get(&at).copied().unwrap_or(at)),
    })
}
