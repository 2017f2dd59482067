//! Grants of operators: wallet balance, points and coupons; some coupons expire soon.

use chrono::TimeDelta;
use handover_events::TenantId;
use marketplace::App;
use marketplace::use_cases::operations::{AssetGrant as Given, IssueCoupon};
use marketplace_domain::{Asset, Money, Points, UserId};

use super::journal::{ClientResponse, GrantRecord, IssuedCoupon, Journal};
use super::{by_operator, tenants, user};
use crate::faults::Faults;

/// Grants a random asset to a random buyer of a tenant.
pub(crate) async fn grant_one(app: &App, faults: &Faults, journal: &Journal, tenant: TenantId) {
    let random = &faults.random;
    let user = user(100 + random.below(5));
    let amount = |most: u64| i64::try_from(random.below(most)).unwrap_or(0) + 1;
    let context = by_operator(faults, tenant);
    let trace = context.trace.trace_id.clone();
    let (asset, granted) = match random.below(3) {
        0 => {
            let money = Money::from_minor(amount(50_000)).expect("a valid amount");
            (Asset::Wallet, app.operations.grant_asset(&context, user, Given::Deposit(money), None).await)
        }
        1 => {
            let points = Points::try_from(amount(20_000)).expect("a valid number");
            (Asset::Points, app.operations.grant_asset(&context, user, Given::Grant(points), None).await)
        }
        _ => return coupon(app, faults, journal, (tenant, user)).await,
    };
    match granted {
        Ok(operation) => {
            let grant = GrantRecord { tenant, user, asset, amount: operation.amount, trace };
            journal.record("an operator", ClientResponse::AssetGranted(grant));
        }
        Err(error) => faults.note("an operator", || format!("outcome of the {asset} grant unknown: {error}")),
    }
}

async fn coupon(app: &App, faults: &Faults, journal: &Journal, (tenant, user): (TenantId, UserId)) {
    let random = &faults.random;
    let amount = |most: u64| Money::from_minor(i64::try_from(random.below(most)).unwrap_or(0) + 1);
    let soon = TimeDelta::milliseconds(i64::try_from(1_000 + random.below(10_000)).unwrap_or(0));
    let life = if random.permille(300) { soon } else { TimeDelta::days(1) };
    let command = IssueCoupon {
        user,
        discount: amount(9_500).expect("a valid amount"),
        min_spend: amount(5_000).expect("a valid amount"),
        expires_at: app.tx.now() + life,
        reason: None,
    };
    let context = by_operator(faults, tenant);
    match app.operations.issue_coupon(&context, command).await {
        Ok(coupon) => {
            let (amount, trace) = (coupon.discount.minor(), context.trace.trace_id);
            journal.record_coupon(IssuedCoupon { tenant, user, id: coupon.id, discount: coupon.discount });
            journal.record(
                "an operator",
                ClientResponse::AssetGranted(GrantRecord {
                    tenant,
                    user,
                    asset: Asset::Coupon,
                    amount,
                    trace,
                }),
            );
        }
        Err(error) => faults.note("an operator", || format!("outcome of the coupon grant unknown: {error}")),
    }
}

/// Makes grants at the beginning of a run; some runs have no grants.
pub(crate) async fn grant_at_begin(app: &App, faults: &Faults, journal: &Journal) {
    let [first, second] = tenants();
    if faults.random.permille(300) {
        return;
    }
    for _ in 0..8 + faults.random.below(10) {
        grant_one(app, faults, journal, first).await;
    }
    for _ in 0..2 + faults.random.below(4) {
        grant_one(app, faults, journal, second).await;
    }
}
