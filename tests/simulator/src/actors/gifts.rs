//! What operators give: wallet balance, points and coupons, some too little and some that soon expire.

use chrono::TimeDelta;
use handover_events::*;
use marketplace::App;
use marketplace::use_cases::operations::{Gift as Given, IssueCoupon, give, issue_coupon};
use marketplace_domain::*;

use super::journal::{Gift, Issued, Journal, Told};
use super::{by_operator, tenants, user};
use crate::faults::Faults;

/// A gift to one of the buyers of this marketplace.
pub(crate) async fn one(app: &App, faults: &Faults, journal: &Journal, tenant: TenantId) {
    let dice = &faults.dice;
    let user = user(100 + dice.below(5));
    let amount = |most: u64| i64::try_from(dice.below(most)).unwrap_or(0) + 1;
    let context = by_operator(faults, tenant);
    let trace = context.trace.trace_id.clone();
    let (asset, given) = match dice.below(3) {
        0 => {
            let money = Money::from_minor(amount(50_000)).expect("a legal amount");
            (Asset::Wallet, give(app, &context, user, Given::Deposit(money), None).await)
        }
        1 => {
            let points = Points::try_from(amount(20_000)).expect("a legal number");
            (Asset::Points, give(app, &context, user, Given::Grant(points), None).await)
        }
        _ => return coupon(app, faults, journal, (tenant, user)).await,
    };
    match given {
        Ok(operation) => {
            let gift = Gift { tenant, user, asset, amount: operation.amount, trace };
            journal.tell("an operator", Told::Given(gift));
        }
        Err(error) => {
            faults.note("an operator", || format!("does not know whether it gave {asset}: {error}"))
        }
    }
}

async fn coupon(app: &App, faults: &Faults, journal: &Journal, (tenant, user): (TenantId, UserId)) {
    let dice = &faults.dice;
    let amount = |most: u64| Money::from_minor(i64::try_from(dice.below(most)).unwrap_or(0) + 1);
    let soon = TimeDelta::milliseconds(i64::try_from(1_000 + dice.below(10_000)).unwrap_or(0));
    let life = if dice.permille(300) { soon } else { TimeDelta::days(1) };
    let command = IssueCoupon {
        user,
        discount: amount(9_500).expect("a legal amount"),
        min_spend: amount(5_000).expect("a legal amount"),
        expires_at: app.now() + life,
        reason: None,
    };
    let context = by_operator(faults, tenant);
    match issue_coupon(app, &context, command).await {
        Ok(coupon) => {
            let (amount, trace) = (coupon.discount.minor(), context.trace.trace_id);
            journal.issued(Issued { tenant, user, id: coupon.id, discount: coupon.discount });
            journal
                .tell("an operator", Told::Given(Gift { tenant, user, asset: Asset::Coupon, amount, trace }));
        }
        Err(error) => {
            faults.note("an operator", || format!("does not know whether it gave a coupon: {error}"))
        }
    }
}

/// What the buyers have when the day begins: on some days nothing.
pub(crate) async fn of_the_morning(app: &App, faults: &Faults, journal: &Journal) {
    let [first, second] = tenants();
    if faults.dice.permille(300) {
        return;
    }
    for _ in 0..8 + faults.dice.below(10) {
        one(app, faults, journal, first).await;
    }
    for _ in 0..2 + faults.dice.below(4) {
        one(app, faults, journal, second).await;
    }
}
