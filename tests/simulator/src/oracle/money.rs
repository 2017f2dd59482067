//! Money and goods of a whole marketplace: nothing comes from nowhere, nothing is left over, nothing is used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::Trace;
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace::use_cases::operations::{FindingKind, Reconcile, reconcile};
use marketplace::{Actor, CommandContext};
use marketplace_domain::*;

use super::assets::{Used, is_parked};
use super::{ALL, Case, Evidence};
use crate::actors;
use crate::actors::rows_by_hand::is_misleading;

/// How many in 1,000 days end with a reconciliation.
const RECONCILED: u64 = 500;

/// All orders of all marketplaces.
pub(super) async fn orders(view: &mut dyn MarketView, now: DateTime<Utc>) -> Result<Vec<Order>, StoreError> {
    let until = now + TimeDelta::hours(1);
    view.orders_changed(None, DateTime::UNIX_EPOCH, until, None, ALL).await
}

/// What is still on its way: refunds, holds, lost events that nobody has announced again.
pub(super) async fn unsettled(case: &mut Case<'_>) -> Result<Vec<String>, StoreError> {
    let mut open = Vec::new();
    let paid: BTreeSet<(TenantId, i64)> = case
        .rows
        .iter()
        .filter(|row| row.event_type == EventType::OrderPaid.as_str() && !is_misleading(&row.event_id))
        .map(|row| (row.aggregate.tenant, row.aggregate.id))
        .collect();
    for order in orders(case.view.as_mut(), case.evidence.app.now()).await? {
        if order.pay_time.is_some() && !paid.contains(&(order.tenant, order.id.get())) {
            open.push(format!("order {} is paid, and nobody announces it", order.id));
        }
        for refund in case.view.refunds_of(order.tenant, order.id).await? {
            if refund.status == RefundStatus::Processing {
                open.push(format!("refund {} of order {} is being processed", refund.id, order.id));
            }
        }
        if order.assets.is_empty() {
            continue;
        }
        for hold in case.view.holds_of(order.tenant, order.id).await? {
            if hold.status == HoldStatus::Frozen && !is_parked(case, &order, hold.asset) {
                open.push(format!(
                    "the {} of order {} is held, which is {}",
                    hold.asset, order.id, order.status
                ));
            }
        }
    }
    Ok(open)
}

/// What does not add up in the ledger at this moment.
pub(crate) async fn flaws(store: &MarketStore) -> Result<Vec<String>, StoreError> {
    let mut view = store.view().await?;
    let found = view.ledger_flaws(None, ALL).await?;
    let mut flaws: Vec<String> = found.into_iter().map(|flaw| format!("the ledger: {flaw:?}")).collect();
    let mut sums: BTreeMap<(TenantId, Asset), i64> = BTreeMap::new();
    for total in view.account_totals(None).await? {
        *sums.entry((total.tenant, total.account.asset())).or_default() += total.total;
    }
    for ((tenant, asset), sum) in sums {
        if sum != 0 {
            flaws.push(format!("all accounts of tenant {tenant} in {asset} sum to {sum}"));
        }
    }
    Ok(flaws)
}

/// Everything at rest.
pub(super) async fn check(case: &mut Case<'_>, used: &Used) -> Result<(), StoreError> {
    let found = flaws(case.evidence.store.as_ref()).await?;
    found.into_iter().for_each(|flaw| case.breaks(flaw));
    for tenant in actors::tenants() {
        let mut deposits = 0;
        for user in actors::buyers() {
            for purse in [Purse::Wallet, Purse::Points] {
                let given = check_purse(case, (tenant, user, purse), used).await?;
                deposits += if purse == Purse::Wallet { given } else { 0 };
            }
        }
        check_gateway(case, tenant, deposits).await?;
    }
    check_coupons(case, used).await?;
    let is_compared = case.evidence.tidied && case.evidence.faults.dice.permille(RECONCILED);
    if is_compared { check_reconciled(case).await } else { Ok(()) }
}

/// A purse holds what was given, less what was used; tells what was given.
async fn check_purse(
    case: &mut Case<'_>,
    (tenant, user, purse): (TenantId, UserId, Purse),
    used: &Used,
) -> Result<i64, StoreError> {
    let mut gifts: BTreeMap<OperationKey, i64> = BTreeMap::new();
    for entry in case.view.entries_page(tenant, user, purse, None, ALL).await? {
        let operation = entry.effect.operation;
        if matches!(operation.kind, OperationKind::Deposit | OperationKind::Grant) {
            gifts.insert(operation.key, operation.amount);
        }
        if entry.effect.entry.account == Account::PointsDebt {
            let place = "points taken back that were spent";
            case.evidence.faults.cover(|coverage| coverage.place(place));
        }
    }
    let given: i64 = gifts.values().sum();
    let balance = case.view.balance_of(tenant, user, purse).await?;
    let (available, frozen, debt) = balance.map_or((0, 0, 0), |it| (it.available, it.frozen, it.debt));
    let whose = (tenant, user, purse);
    let due = given + used.purses.get(&whose).copied().unwrap_or(0);
    let held = used.frozen.get(&whose).copied().unwrap_or(0);
    let is_sane = available >= 0 && frozen >= 0 && debt >= 0 && (available == 0 || debt == 0);
    if available + frozen - debt != due || frozen != held || !is_sane {
        case.breaks(format!(
            "the {purse} of buyer {user} of tenant {tenant} has {available}, {frozen} frozen, owes {debt}; due are {due} with \
             {held} frozen"
        ));
    }
    Ok(given)
}

/// The account of the gateway is what came from it and went back.
async fn check_gateway(case: &mut Case<'_>, tenant: TenantId, deposits: i64) -> Result<(), StoreError> {
    let mut came = deposits;
    for order in orders(case.view.as_mut(), case.evidence.app.now()).await? {
        if order.tenant != tenant {
            continue;
        }
        let payments = case.view.payments_of(tenant, order.id).await?;
        came += payments
            .iter()
            .filter(|it| it.status == PaymentStatus::Success)
            .map(|it| it.amount.minor())
            .sum::<i64>();
        let refunds = case.view.refunds_of(tenant, order.id).await?;
        let bank = case.evidence.bank.refunds();
        let went = refunds.iter().filter_map(|refund| bank.get(&refund.id));
        came -= went.filter(|it| it.result == RefundResult::Success).map(|it| it.amount.minor()).sum::<i64>();
    }
    let totals = case.view.account_totals(Some(tenant)).await?;
    let total = totals.iter().find(|it| it.account == Account::Gateway).map_or(0, |it| it.total);
    if total != -came {
        case.breaks(format!("the gateway's account of tenant {tenant} is {total}, and {came} came from it"));
    }
    Ok(())
}

/// A coupon is used by one order at a time.
async fn check_coupons(case: &mut Case<'_>, used: &Used) -> Result<(), StoreError> {
    for issued in case.evidence.journal.coupons() {
        let Some(coupon) = case.view.coupon_by_id(issued.tenant, issued.id).await? else {
            case.breaks(format!("coupon {} was issued and is not there", issued.id));
            continue;
        };
        let by = used.coupons.get(&(issued.tenant, issued.id)).map(Vec::as_slice).unwrap_or_default();
        let due = match by {
            [] if coupon.status == CouponStatus::Expired => (CouponStatus::Expired, None),
            [] => (CouponStatus::Available, None),
            [(order, status)] => (*status, Some(*order)),
            _ => {
                case.breaks(format!("coupon {} is used by {by:?}", coupon.id));
                continue;
            }
        };
        if (coupon.status, coupon.order) != due {
            let now = (coupon.status, coupon.order);
            case.breaks(format!("coupon {} is {now:?}, by its orders {due:?}", coupon.id));
        }
    }
    Ok(())
}

/// When nothing is on its way, the application's own comparison finds nothing.
async fn check_reconciled(case: &mut Case<'_>) -> Result<(), StoreError> {
    let Evidence { app, .. } = case.evidence;
    let context = CommandContext {
        actor: Actor::CommandLine("oracle".to_owned()),
        tenant: TenantId::DEFAULT,
        trace: Trace { trace_id: "oracle".to_owned(), traceparent: None },
        idempotency: None,
    };
    let command = Reconcile {
        tenant: None,
        since: DateTime::UNIX_EPOCH,
        until: app.now() + TimeDelta::hours(1),
        grace: Duration::ZERO,
        repair: false,
        reason: None,
    };
    match reconcile(app, &context, command).await {
        Ok(told) => {
            for finding in told.findings {
                // A stray message is of no event, and lies there on purpose.
                let is_stray = |id: &EventId| {
                    case.evidence.faults.seen(|seen| {
                        let mut strays = seen.strays.iter().chain(&seen.lost_strays);
                        strays.any(|body| body.contains(id.as_str()))
                    })
                };
                if finding.kind == FindingKind::UnknownEvent
                    && finding.event_id.as_ref().is_some_and(is_stray)
                {
                    continue;
                }
                if finding.event_id.as_ref().is_some_and(is_misleading) {
                    continue;
                }
                let (kind, order) = (finding.kind, finding.order.map_or(0, OrderId::get));
                case.breaks(format!("the reconciliation finds {kind:?} of order {order}: {}", finding.what));
            }
        }
        Err(error) => case.breaks(format!("the reconciliation fails: {error}")),
    }
    Ok(())
}
