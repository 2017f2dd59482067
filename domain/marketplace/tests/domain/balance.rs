//! Effects and ledger entries of each operation on wallet and points. `balance_model.rs` compares the operations with a
//! model.

use chrono::{DateTime, Utc};
use handover_events::MAX_ID;
use marketplace_domain::{
    Account, Asset, AssetOperation, AssetRefusal, Balance, Entry, OperationKey, OperationKind, Posting, Purse,
};
use proptest::prelude::*;

use crate::common::{BUYER, at, id, placed_at};

type Change = Result<(Balance, Vec<Entry>), AssetRefusal>;

const PURSES: [Purse; 2] = [Purse::Wallet, Purse::Points];

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00.5Z")
}

fn balance(purse: Purse, available: i64, frozen: i64, debt: i64) -> Balance {
    let empty = Balance::empty(id(3), id(BUYER), purse, placed_at());
    Balance { available, frozen, debt, version: 7, ..empty }
}

/// Available amount, frozen amount, debt, and the entries, each with its account, its amount and the balance after it.
type Summary = (i64, i64, i64, Vec<(&'static str, i64, Option<i64>)>);

fn summary(change: Change) -> Summary {
    let (after, entries) = change.unwrap();
    assert_eq!((after.version, after.update_time), (8, now()));
    let entries = entries.iter().map(|e| (e.account.as_str(), e.amount, e.balance_after)).collect();
    (after.available, after.frozen, after.debt, entries)
}

fn insufficient(purse: Purse, asked: i64, available: i64) -> Change {
    Err(AssetRefusal::Insufficient { asset: purse.asset(), asked, available })
}

fn too_much(purse: Purse) -> Change {
    Err(AssetRefusal::TooMuch { asset: purse.asset() })
}

/// Results of all operations with this amount.
fn each_of(balance: &Balance, amount: i64) -> [Change; 6] {
    [
        balance.receive(amount, Account::Gateway, now()),
        balance.freeze(amount, now()),
        balance.commit(amount, now()),
        balance.release(amount, now()),
        balance.revert(amount, now()),
        balance.revoke(amount, now()),
    ]
}

#[test]
fn wallet_operations_move_money_between_wallet_hold_and_marketplace() {
    let wallet = balance(Purse::Wallet, 500, 200, 0);
    let (on, hold) = ("wallet", "wallet_hold");
    assert_eq!(
        summary(wallet.receive(100, Account::Gateway, now())),
        (600, 200, 0, vec![("gateway", -100, None), (on, 100, Some(600))])
    );
    assert_eq!(
        summary(wallet.freeze(100, now())),
        (400, 300, 0, vec![(on, -100, Some(400)), (hold, 100, Some(300))])
    );
    assert_eq!(
        summary(wallet.commit(100, now())),
        (500, 100, 0, vec![(hold, -100, Some(100)), ("platform", 100, None)])
    );
    assert_eq!(
        summary(wallet.release(100, now())),
        (600, 100, 0, vec![(hold, -100, Some(100)), (on, 100, Some(600))])
    );
    assert_eq!(
        summary(wallet.revert(100, now())),
        (600, 200, 0, vec![("platform", -100, None), (on, 100, Some(600))])
    );
    assert_eq!(
        summary(wallet.revoke(100, now())),
        (400, 200, 0, vec![(on, -100, Some(400)), ("platform", 100, None)])
    );
}

#[test]
fn revoked_points_that_were_spent_become_a_debt_that_is_repaid_first() {
    let (on, hold, debt, issued) = ("points", "points_hold", "points_debt", "points_issued");
    assert_eq!(
        summary(balance(Purse::Points, 30, 50, 0).revoke(100, now())),
        (0, 50, 70, vec![(on, -30, Some(0)), (debt, -70, Some(-70)), (issued, 100, None)])
    );
    let owing = balance(Purse::Points, 0, 50, 70);
    assert_eq!(summary(owing.revoke(5, now())), (0, 50, 75, vec![(debt, -5, Some(-75)), (issued, 5, None)]));
    assert_eq!(
        summary(owing.receive(20, Account::PointsIssued, now())),
        (0, 50, 50, vec![(issued, -20, None), (debt, 20, Some(-50))])
    );
    assert_eq!(
        summary(owing.revert(100, now())),
        (30, 50, 0, vec![(issued, -100, None), (debt, 70, Some(0)), (on, 30, Some(30))])
    );
    assert_eq!(
        summary(owing.release(50, now())),
        (0, 0, 20, vec![(hold, -50, Some(0)), (debt, 50, Some(-20))])
    );
    assert_eq!(
        summary(Balance { debt: 20, ..owing.clone() }.release(50, now())),
        (30, 0, 0, vec![(hold, -50, Some(0)), (debt, 20, Some(0)), (on, 30, Some(30))])
    );
    assert_eq!(summary(owing.commit(50, now())), (0, 0, 70, vec![(hold, -50, Some(0)), (issued, 50, None)]));
}

#[test]
fn wallet_never_has_a_debt() {
    let wallet = balance(Purse::Wallet, 30, 50, 0);
    assert_eq!(summary(wallet.revoke(30, now())).0, 0);
    assert_eq!(wallet.revoke(31, now()), insufficient(Purse::Wallet, 31, 30));
}

#[test]
fn operation_above_the_available_or_frozen_amount_is_rejected() {
    for purse in PURSES {
        let account = balance(purse, 30, 50, 0);
        assert_eq!(summary(account.freeze(30, now())).0, 0);
        assert_eq!(account.freeze(31, now()), insufficient(purse, 31, 30));
        assert_eq!(summary(account.commit(50, now())).1, 0);
        assert_eq!(account.commit(51, now()), insufficient(purse, 51, 50));
        assert_eq!(summary(account.release(50, now())).1, 0);
        assert_eq!(account.release(51, now()), insufficient(purse, 51, 50));
    }
    let owing = balance(Purse::Points, 0, 50, 70);
    assert_eq!(owing.freeze(1, now()), insufficient(Purse::Points, 1, 0));
    let refusal = balance(Purse::Wallet, 30, 50, 0).commit(151, now()).unwrap_err();
    assert_eq!(refusal.to_string(), "insufficient wallet: 1.51 requested, 0.50 available");
}

#[test]
fn operation_with_amount_zero_has_no_entries() {
    for (available, frozen, debt) in [(0, 0, 0), (30, 50, 0), (0, 50, 70), (MAX_ID, 0, 0), (0, MAX_ID, 0)] {
        for purse in PURSES {
            let debt = if purse == Purse::Points { debt } else { 0 };
            for change in each_of(&balance(purse, available, frozen, debt), 0) {
                assert_eq!(summary(change), (available, frozen, debt, vec![]));
            }
        }
    }
}

#[test]
fn amount_out_of_range_is_rejected() {
    for amount in [i64::MIN, -MAX_ID, -1, MAX_ID + 1, i64::MAX] {
        for purse in PURSES {
            for full in
                [balance(purse, 30, 50, 0), balance(purse, MAX_ID, 0, 0), balance(purse, 0, MAX_ID, 0)]
            {
                for change in each_of(&full, amount) {
                    assert_eq!(change, too_much(purse), "{amount}");
                }
            }
        }
    }
    for change in each_of(&balance(Purse::Points, 0, 50, MAX_ID), -1) {
        assert_eq!(change, too_much(Purse::Points));
    }
}

#[test]
fn frozen_amount_counts_toward_the_limit_of_a_balance() {
    for purse in PURSES {
        let full = balance(purse, 30, MAX_ID - 30, 0);
        for change in [full.receive(1, Account::Gateway, now()), full.revert(1, now())] {
            assert_eq!(change, too_much(purse));
        }
        assert_eq!(summary(full.release(MAX_ID - 30, now())).0, MAX_ID);
        assert_eq!(summary(full.freeze(30, now())).1, MAX_ID);
        assert_eq!(summary(balance(purse, 0, 0, 0).receive(MAX_ID, Account::Gateway, now())).0, MAX_ID);
    }
}

#[test]
fn debt_above_the_limit_is_rejected() {
    let owing = balance(Purse::Points, 0, 0, MAX_ID - 5);
    assert_eq!(summary(owing.revoke(5, now())).2, MAX_ID);
    assert_eq!(owing.revoke(6, now()), too_much(Purse::Points));
    let owing = balance(Purse::Points, 0, MAX_ID, MAX_ID);
    assert_eq!(summary(owing.release(MAX_ID, now())).2, 0);
}

#[test]
fn every_account_is_in_money_or_points() {
    let in_points = [Account::Points, Account::PointsHold, Account::PointsDebt, Account::PointsIssued];
    for account in Account::ALL {
        let asset = if in_points.contains(account) { Asset::Points } else { Asset::Wallet };
        assert_eq!(account.asset(), asset, "{account}");
    }
    assert_eq!(PURSES.map(Purse::asset), [Asset::Wallet, Asset::Points]);
}

#[test]
fn posting_must_balance_separately_in_money_and_points() {
    let balances = |entries: &[(Account, i64)]| {
        let operation = AssetOperation {
            tenant: id(3),
            key: OperationKey::stored("k-1".into()),
            asset: Asset::Wallet,
            kind: OperationKind::Deposit,
            user: Some(id(BUYER)),
            order: None,
            refund: None,
            coupon: None,
            amount: 1,
            balance_after: None,
            event_id: None,
            trace_id: None,
            at: now(),
        };
        let entries = entries.iter().map(|(account, amount)| Entry::own(*account, *amount)).collect();
        Posting { operation, entries }.is_balanced()
    };
    assert!(balances(&[]));
    assert!(balances(&[(Account::Gateway, -5), (Account::Platform, 5)]));
    assert!(!balances(&[(Account::Gateway, -5), (Account::Platform, 4)]));
    assert!(!balances(&[(Account::Gateway, -5), (Account::Points, 5)]));
    assert!(!balances(&[(Account::Points, i64::MAX), (Account::Points, i64::MAX), (Account::Points, 2)]));
}

/// A change of points. Changes of these kinds are valid in any sequence.
#[derive(Debug, Clone, Copy)]
enum PointsChange {
    Earned(i64),
    Reverted(i64),
    TakenBack(i64),
    Released(i64),
    Committed(i64),
}

proptest! {
    #[test]
    fn balance_does_not_depend_on_the_sequence_of_changes(
        (changes, shuffled) in prop::collection::vec((0..5u8, 0..200i64), 0..12).prop_flat_map(|changes| {
            let changes: Vec<_> = changes
                .into_iter()
                .map(|(kind, amount)| match kind {
                    0 => PointsChange::Earned(amount),
                    1 => PointsChange::Reverted(amount),
                    2 => PointsChange::TakenBack(amount),
                    3 => PointsChange::Released(amount),
                    _ => PointsChange::Committed(amount),
                })
                .collect();
            (Just(changes.clone()), Just(changes).prop_shuffle())
        }),
        available in 0..300i64,
    ) {
        let after_all = |changes: &[PointsChange]| {
            changes.iter().fold(balance(Purse::Points, available, 12 * 200, 0), |before, step| {
                let change = match *step {
                    PointsChange::Earned(amount) => before.receive(amount, Account::PointsIssued, now()),
                    PointsChange::Reverted(amount) => before.revert(amount, now()),
                    PointsChange::TakenBack(amount) => before.revoke(amount, now()),
                    PointsChange::Released(amount) => before.release(amount, now()),
                    PointsChange::Committed(amount) => before.commit(amount, now()),
                };
                change.unwrap().0
            })
        };
        prop_assert_eq!(after_all(&changes), after_all(&shuffled));
    }
}
