//! Ledger, balances and coupons of all tenants: sums match, no hold remains, nothing is used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::Trace;
use handover_events::{EventId, TenantId};
use handover_outbox::ports::StoreError;
use marketplace::ports::{MarketStore, MarketView, ledger_inconsistencies};
use marketplace::use_cases::operations::{Finding, FindingKind, Reconcile};
use marketplace::{Actor, CommandContext};
use marketplace_domain::{
    Account, Asset, Capture, CouponStatus, EventKind, HoldStatus, OperationKey, OperationKind, Order,
    OrderId, Purse, Refund, RefundResult, RefundStatus, UserId,
};

use super::assets::{AssetUsage, is_dead_or_blocked};
use super::{ALL, Checker, Evidence, invoices};
use crate::actors;
use crate::row_kinds::is_invalid;

/// Share of the runs that end with a reconciliation, in thousandths.
const RECONCILED_PERMILLE: u64 = 500;

/// All orders of all tenants.
pub(super) async fn orders(
    view: &mut dyn MarketView,
    actual: DateTime<Utc>,
) -> Result<Vec<Order>, StoreError> {
    let until = actual + TimeDelta::hours(1);
    let changed = view.orders_changed(None, DateTime::UNIX_EPOCH, until, None, ALL).await?;
    let ids: Vec<OrderId> = changed.iter().map(|order| order.id).collect();
    let mut orders = view.orders_by_id(None, &ids).await?;
    orders.sort_by_key(|order| (order.update_time, order.id));
    Ok(orders)
}

/// Returns pending work of the run: refunds without a result, frozen holds, and lost events that were not appended
/// again.
pub(super) async fn unsettled(checker: &mut Checker<'_>) -> Result<Vec<String>, StoreError> {
    let mut pending = Vec::new();
    let paid: BTreeSet<(TenantId, i64)> = checker
        .rows
        .iter()
        .filter(|row| row.event_type == EventKind::OrderPaid.as_str() && !is_invalid(&row.event_id))
        .map(|row| (row.aggregate.tenant, row.aggregate.id.number()))
        .collect();
    for order in orders(checker.view.as_mut(), checker.evidence.app.tx.now()).await? {
        if order.pay_time.is_some() && !paid.contains(&(order.tenant, order.id.get())) {
            pending.push(format!("order {} is paid, but has no ORDER_PAID event", order.id));
        }
        for refund in checker.view.refunds_of(order.tenant, &[order.id]).await? {
            if refund.status == RefundStatus::Processing {
                pending.push(format!("refund {} of order {} is PROCESSING", refund.id, order.id));
            }
        }
        if order.assets.is_empty() {
            continue;
        }
        for hold in checker.view.holds_of(order.tenant, &[order.id]).await? {
            if hold.status == HoldStatus::Frozen && !is_dead_or_blocked(checker, &order, hold.asset) {
                pending.push(format!(
                    "the {} of order {} is frozen, although the order is {}",
                    hold.asset, order.id, order.status
                ));
            }
        }
    }
    for (invoice, paid) in invoices::all(checker.view.as_mut()).await? {
        for refund in paid.refunds.iter().filter(|refund| refund.status == RefundStatus::Processing) {
            pending.push(format!("refund {} of invoice {} is PROCESSING", refund.id, invoice.id));
        }
    }
    Ok(pending)
}

/// Violations in the ledger at this moment.
pub(crate) async fn ledger_violations(store: &MarketStore) -> Result<Vec<String>, StoreError> {
    let mut view = store.view().await?;
    let found = ledger_inconsistencies(view.as_mut(), None, usize::MAX).await?;
    let mut ledger_violations: Vec<String> =
        found.into_iter().map(|violation| format!("the ledger: {violation:?}")).collect();
    let mut sums: BTreeMap<(TenantId, Asset), i64> = BTreeMap::new();
    for total in view.account_totals(None).await? {
        *sums.entry((total.tenant, total.account.asset())).or_default() += total.total;
    }
    for ((tenant, asset), sum) in sums {
        if sum != 0 {
            ledger_violations
                .push(format!("all accounts of tenant {tenant} in {asset} sum to {sum} instead of 0"));
        }
    }
    Ok(ledger_violations)
}

/// Checks purses, coupons, the gateway's account and the reconciliation when no work is pending.
pub(super) async fn check(checker: &mut Checker<'_>, usage: &AssetUsage) -> Result<(), StoreError> {
    let found = ledger_violations(checker.evidence.store.as_ref()).await?;
    found.into_iter().for_each(|violation| checker.violation(violation));
    for tenant in actors::tenants() {
        let mut deposits = 0;
        for user in actors::buyers() {
            for purse in [Purse::Wallet, Purse::Points] {
                let granted = check_purse(checker, (tenant, user, purse), usage).await?;
                deposits += if purse == Purse::Wallet { granted } else { 0 };
            }
        }
        check_gateway(checker, tenant, deposits).await?;
    }
    check_coupons(checker, usage).await?;
    let is_compared =
        checker.evidence.recovered && checker.evidence.faults.random.permille(RECONCILED_PERMILLE);
    if is_compared { check_reconciled(checker).await } else { Ok(()) }
}

/// A purse contains the grants and the earned points minus the amounts used. Returns the sum of the grants.
async fn check_purse(
    checker: &mut Checker<'_>,
    (tenant, user, purse): (TenantId, UserId, Purse),
    usage: &AssetUsage,
) -> Result<i64, StoreError> {
    let mut grants: BTreeMap<OperationKey, i64> = BTreeMap::new();
    for entry in checker.view.entries_page(tenant, user, purse, None, ALL).await? {
        let operation = entry.effect.operation;
        if matches!(operation.kind, OperationKind::Deposit | OperationKind::Grant) {
            grants.insert(operation.key, operation.amount);
        }
        if entry.effect.entry.account == Account::PointsDebt {
            let place = "revoked points that were spent";
            checker.evidence.faults.cover(|coverage| coverage.situation(place));
        }
    }
    let granted: i64 = grants.values().sum();
    let balance = checker.view.balance_of(tenant, user, purse).await?;
    let (available, frozen, debt) = balance.map_or((0, 0, 0), |it| (it.available, it.frozen, it.debt));
    let whose = (tenant, user, purse);
    let expected = granted + usage.purses.get(&whose).copied().unwrap_or(0);
    let held = usage.frozen.get(&whose).copied().unwrap_or(0);
    let is_valid = available >= 0 && frozen >= 0 && debt >= 0 && (available == 0 || debt == 0);
    if available + frozen - debt != expected || frozen != held || !is_valid {
        checker.violation(format!(
            "the {purse} of buyer {user} of tenant {tenant} has {available}, {frozen} frozen, debt {debt}; \
             expected {expected} with {held} frozen"
        ));
    }
    Ok(granted)
}

/// The negated balance of the gateway's account equals captures plus deposits minus refunds.
async fn check_gateway(checker: &mut Checker<'_>, tenant: TenantId, deposits: i64) -> Result<(), StoreError> {
    let mut captures: Vec<Capture> = Vec::new();
    let mut refunds: Vec<Refund> = Vec::new();
    for order in orders(checker.view.as_mut(), checker.evidence.app.tx.now()).await? {
        if order.tenant != tenant {
            continue;
        }
        captures.extend(checker.view.captures_of(tenant, &[order.id]).await?);
        refunds.extend(checker.view.refunds_of(tenant, &[order.id]).await?);
    }
    for (invoice, paid) in invoices::all(checker.view.as_mut()).await? {
        if invoice.tenant == tenant {
            captures.extend(paid.captures);
            refunds.extend(paid.refunds);
        }
    }
    let gateway_refunds = checker.evidence.gateway_model.refunds();
    let is_paid_back = |refund: &&Refund| match gateway_refunds.get(&refund.id) {
        // The application may not have received the second report.
        Some(at_gateway) if at_gateway.is_contradicted => refund.status == RefundStatus::Success,
        Some(at_gateway) => at_gateway.result == RefundResult::Success,
        None => false,
    };
    let captured: i64 = captures.iter().map(|it| it.amount.minor()).sum();
    let paid_back: i64 = refunds.iter().filter(is_paid_back).map(|it| it.amount.minor()).sum();
    let received = deposits + captured - paid_back;
    let totals = checker.view.account_totals(Some(tenant)).await?;
    let total = totals.iter().find(|it| it.account == Account::Gateway).map_or(0, |it| it.total);
    if total != -received {
        checker.violation(format!(
            "the gateway's account of tenant {tenant} is {total}, but the net amount received from it is {received}"
        ));
    }
    Ok(())
}

/// A coupon is used by at most one order at a time.
async fn check_coupons(checker: &mut Checker<'_>, usage: &AssetUsage) -> Result<(), StoreError> {
    for issued in checker.evidence.journal.coupons() {
        let Some(coupon) = checker.view.coupon_by_id(issued.tenant, issued.id).await? else {
            checker.violation(format!("coupon {} was issued, but does not exist", issued.id));
            continue;
        };
        let by = usage.coupons.get(&(issued.tenant, issued.id)).map(Vec::as_slice).unwrap_or_default();
        let expected = match by {
            [] if coupon.status == CouponStatus::Expired => (CouponStatus::Expired, None),
            [] => (CouponStatus::Available, None),
            [(order, status)] => (*status, Some(*order)),
            _ => {
                checker.violation(format!("coupon {} is used by more than one order: {by:?}", coupon.id));
                continue;
            }
        };
        if (coupon.status, coupon.order) != expected {
            let actual = (coupon.status, coupon.order);
            checker.violation(format!(
                "coupon {} is {actual:?}, expected from its orders {expected:?}",
                coupon.id
            ));
        }
    }
    Ok(())
}

/// Whether the gateway refused a refund of the capture that a finding names, or returned its money.
async fn has_refused_refund(checker: &mut Checker<'_>, finding: &Finding) -> Result<bool, StoreError> {
    let Some(order) = finding.order else { return Ok(false) };
    let refunds = checker.view.refunds_of(finding.tenant, &[order]).await?;
    let key_of = |refund: &Refund| match refund.capture {
        1 => format!("payment:{}", refund.payment),
        capture => format!("payment:{}:{capture}", refund.payment),
    };
    let of_finding = |refund: &Refund| finding.key == Some(key_of(refund));
    Ok(refunds.iter().any(|refund| of_finding(refund) && refund.status == RefundStatus::Failed))
}

/// When no work is pending, the application's own reconciliation finds nothing, except foreign messages and invalid
/// rows.
async fn check_reconciled(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    let Evidence { app, .. } = checker.evidence;
    let context = CommandContext {
        actor: Actor::CommandLine("oracle".to_owned()),
        tenant: TenantId::DEFAULT,
        trace: Trace { trace_id: "oracle".to_owned(), traceparent: None },
        request_id: None,
    };
    let operator = context.operator().expect("the command line has every role");
    let command = Reconcile {
        tenant: None,
        since: DateTime::UNIX_EPOCH,
        until: app.tx.now() + TimeDelta::hours(1),
        grace: Duration::ZERO,
        repair: false,
        reason: None,
    };
    match app.operations.reconcile(&operator, command).await {
        Ok(report) => {
            for finding in report.findings {
                // An unknown event in a foreign message is an expected finding: the run injects such messages.
                let is_foreign = |id: &EventId| {
                    checker.evidence.faults.observed(|observed| {
                        let mut bodies =
                            observed.foreign_bodies.iter().chain(&observed.purged_foreign_bodies);
                        bodies.any(|body| body.contains(id.as_str()))
                    })
                };
                if finding.kind == FindingKind::UnknownEvent
                    && finding.event_id.as_ref().is_some_and(is_foreign)
                {
                    continue;
                }
                if finding.event_id.as_ref().is_some_and(is_invalid) {
                    continue;
                }
                // An open report waits for an operator, whom the simulator does not play.
                if finding.kind == FindingKind::GatewayReport {
                    continue;
                }
                // A refund that the gateway refused waits for an operator, who may not have requested another one.
                if finding.kind == FindingKind::NotRefunded && has_refused_refund(checker, &finding).await? {
                    continue;
                }
                let (kind, order) = (finding.kind, finding.order.map_or(0, OrderId::get));
                checker.violation(format!(
                    "the reconciliation reports {kind:?} for order {order}: {}",
                    finding.what
                ));
            }
        }
        Err(error) => checker.violation(format!("the reconciliation failed: {error}")),
    }
    Ok(())
}
