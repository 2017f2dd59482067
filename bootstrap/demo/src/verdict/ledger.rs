//! Promises about the ledger: sums, balances, earned points.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;
use marketplace_domain::{Account, Asset, OperationKind, OrderStatus, Purse, UserId};

use super::promise::{Evidence, Promise, Violations, promise};

/// Amount of money, in minor units, that earns one point.
const MINOR_PER_POINT: i64 = 100;

/// Promise: all entries of a tenant and asset sum to zero, so no money or points are created or lost.
pub(super) fn sums_to_zero(evidence: &Evidence<'_>) -> Promise {
    let totals = &evidence.database.assets.totals;
    let mut violations = Violations::default();
    let mut sums: BTreeMap<(TenantId, Asset), i64> = BTreeMap::new();
    for total in totals {
        let sum = sums.entry((total.tenant, total.account.asset())).or_insert(0);
        *sum = sum.saturating_add(total.total);
    }
    for ((tenant, asset), sum) in sums.iter().filter(|(_, sum)| **sum != 0) {
        violations
            .add(|| format!("{asset} entries of tenant {tenant} sum to {}, expected 0", asset.show(*sum)));
    }
    if totals.is_empty() {
        violations.add(|| "the ledger has no entries".to_owned());
    }
    let of =
        |asset: Asset| -> i64 { sums.iter().filter(|((_, of), _)| *of == asset).map(|(_, sum)| *sum).sum() };
    let text = |money: i64, points: i64| format!("{} in money, {points} points", Asset::Wallet.show(money));
    promise("the ledger sums to zero", text(0, 0), text(of(Asset::Wallet), of(Asset::Points)), &violations)
}

/// Promise: each balance equals the sum of its ledger entries.
pub(super) fn balances(evidence: &Evidence<'_>) -> Promise {
    let assets = &evidence.database.assets;
    let mut violations = Violations::default();
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
        for (account, actual) in accounts {
            let sum = entries.remove(&(balance.user, *account)).unwrap_or(0);
            if sum != *actual {
                is_same = false;
                violations.add(|| {
                    format!("{account} of user {}: {actual}, but its entries sum to {sum}", balance.user)
                });
            }
        }
        same += usize::from(is_same);
    }
    for ((user, account), sum) in entries.iter().filter(|(_, sum)| **sum != 0) {
        violations.add(|| format!("{account} of user {user}: no balance, but its entries sum to {sum}"));
    }
    // Detects entries of users who do not take part in the market.
    let user_accounts =
        [Account::Wallet, Account::WalletHold, Account::Points, Account::PointsHold, Account::PointsDebt];
    for total in assets.totals.iter().filter(|total| user_accounts.contains(&total.account)) {
        let sum: i64 =
            assets.entries.iter().filter(|((_, of), _)| *of == total.account).map(|(_, sum)| sum).sum();
        if total.total != sum {
            violations.add(|| {
                format!("{}: total {}, but {sum} in the accounts of known users", total.account, total.total)
            });
        }
    }
    let users: BTreeSet<UserId> = assets.balances.iter().map(|balance| balance.user).collect();
    let count = |balances: usize| format!("{balances} balances of {} users", users.len());
    promise("balances are the sum of their entries", count(assets.balances.len()), count(same), &violations)
}

/// Promise: earned points match the money that was paid and not refunded.
pub(super) fn earned(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut violations = Violations::default();
    let (mut promised, mut found) = (0, 0);
    for order in database.orders.values() {
        let expected = match order.status {
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => {
                order.payable.minor() / MINOR_PER_POINT
            }
            OrderStatus::Pending | OrderStatus::Cancelled | OrderStatus::Refunded => 0,
        };
        let actual: i64 = database
            .assets
            .of(order.id)
            .iter()
            .map(|operation| points_of(operation.kind) * operation.amount)
            .sum();
        if actual != expected {
            violations.add(|| {
                format!("order {}, {}: {actual} points, expected {expected}", order.id, order.status)
            });
        }
        promised += expected;
        found += actual;
    }
    promise(
        "earned points match payments",
        format!("{promised} points"),
        format!("{found} points"),
        &violations,
    )
}

/// Factor of an operation in the sum of earned points: 1, -1, or 0 if the operation does not change earned points.
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
