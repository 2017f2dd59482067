//! Promises about the ledger: sums, balances, and what was earned.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;
use marketplace_domain::{Account, Asset, OperationKind, OrderStatus, Purse, UserId};

use super::{Against, Evidence, Promise, promise};

/// One point for each whole unit of money.
const MINOR_PER_POINT: i64 = 100;

/// All accounts of a tenant together hold nothing: neither money nor points come from nowhere.
pub(super) fn sums_to_zero(evidence: &Evidence<'_>) -> Promise {
    let totals = &evidence.books.assets.totals;
    let mut against = Against::default();
    let mut sums: BTreeMap<(TenantId, Asset), i64> = BTreeMap::new();
    for total in totals {
        let sum = sums.entry((total.tenant, total.account.asset())).or_insert(0);
        *sum = sum.saturating_add(total.total);
    }
    for ((tenant, asset), sum) in sums.iter().filter(|(_, sum)| **sum != 0) {
        against.add(|| format!("{} in {asset} of tenant {tenant}", asset.show(*sum)));
    }
    if totals.is_empty() {
        against.add(|| "a ledger without entries".to_owned());
    }
    let of =
        |asset: Asset| -> i64 { sums.iter().filter(|((_, of), _)| *of == asset).map(|(_, sum)| *sum).sum() };
    let say = |money: i64, points: i64| format!("{} in money, {points} points", Asset::Wallet.show(money));
    promise("the ledger sums to zero", say(0, 0), say(of(Asset::Wallet), of(Asset::Points)), &against)
}

/// What each buyer has is what the entries say.
pub(super) fn balances(evidence: &Evidence<'_>) -> Promise {
    let assets = &evidence.books.assets;
    let mut against = Against::default();
    let mut entries = assets.entries.clone();
    let mut same = 0;
    for balance in &assets.balances {
        let accounts: &[(Account, i64)] = match balance.purse {
            Purse::Wallet => &[(Account::Wallet, balance.available), (Account::WalletHold, balance.frozen)],
            Purse::Points => &[
                (Account::Points, balance.available),
                (Account::PointsHold, balance.frozen),
                (Account::PointsDebt, -balance.debt),
            ],
        };
        let mut is_same = true;
        for (account, is) in accounts {
            let said = entries.remove(&(balance.user, *account)).unwrap_or(0);
            if said != *is {
                is_same = false;
                against.add(|| format!("{account} of user {}: {is}, the entries say {said}", balance.user));
            }
        }
        same += usize::from(is_same);
    }
    for ((user, account), sum) in entries.iter().filter(|(_, sum)| **sum != 0) {
        against.add(|| format!("{account} of user {user}: no balance, the entries say {sum}"));
    }
    // Entries that belong to no operation or to nobody of the market.
    let kept =
        [Account::Wallet, Account::WalletHold, Account::Points, Account::PointsHold, Account::PointsDebt];
    for total in assets.totals.iter().filter(|total| kept.contains(&total.account)) {
        let said: i64 =
            assets.entries.iter().filter(|((_, of), _)| *of == total.account).map(|(_, sum)| sum).sum();
        if total.total != said {
            against.add(|| format!("{} of all: {}, {said} of it is known", total.account, total.total));
        }
    }
    let users: BTreeSet<UserId> = assets.balances.iter().map(|balance| balance.user).collect();
    let count = |balances: usize| format!("{balances} balances of {} users", users.len());
    promise("balances are the sum of their entries", count(assets.balances.len()), count(same), &against)
}

/// Points were earned by what was paid in money and not paid back, and by nothing else.
pub(super) fn earned(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut against = Against::default();
    let (mut promised, mut found) = (0, 0);
    for order in books.orders.values() {
        let due = match order.status {
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => {
                order.payable.minor() / MINOR_PER_POINT
            }
            OrderStatus::Pending | OrderStatus::Cancelled | OrderStatus::Refunded => 0,
        };
        let is: i64 = books
            .assets
            .of(order.id)
            .iter()
            .map(|operation| points_of(operation.kind) * operation.amount)
            .sum();
        if is != due {
            against.add(|| format!("order {}, {}: {is} points, {due} are due", order.id, order.status));
        }
        promised += due;
        found += is;
    }
    promise(
        "points are earned by what was paid",
        format!("{promised} points"),
        format!("{found} points"),
        &against,
    )
}

/// How an operation counts for what an order earned.
const fn points_of(kind: OperationKind) -> i64 {
    match kind {
        OperationKind::Earn => 1,
        OperationKind::Unearn => -1,
        OperationKind::Deposit
        | OperationKind::Grant
        | OperationKind::Issue
        | OperationKind::Freeze
        | OperationKind::Commit
        | OperationKind::Release
        | OperationKind::Revert
        | OperationKind::Capture
        | OperationKind::Payout => 0,
    }
}
