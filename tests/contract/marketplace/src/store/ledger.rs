//! Rules for the ledger: operations with their keys, and their entries.

use chrono::TimeDelta;
use handover_contract::concurrency::{one_succeeded, race};
use handover_contract::samples::{event_id, later, start, tenant};
use handover_contract::work::is_conflict;
use handover_events::{MAX_ID, TenantId};
use handover_outbox::ports::{Numbered, StoreError};
use marketplace::ports::{
    AccountTotal, LedgerEntry, LedgerInconsistency, LedgerPosition, ledger_inconsistencies,
};
use marketplace_domain::{Account, Asset, AssetOperation, Balance, Entry, OperationKind, Posting, Purse};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{
    balance, coupon_id, deposit, entry, grant, operation, operation_key, order_id, refund_id, user,
};

use Purse::{Points, Wallet};

async fn post(rig: &dyn MarketRig, postings: &[Posting]) {
    in_unit!(rig, |unit| unit.post(postings).await.expect("cannot post operations"));
}

async fn put(rig: &dyn MarketRig, balances: &[Balance]) {
    in_unit!(rig, |unit| {
        for balance in balances {
            let users = [(balance.tenant, balance.user)];
            unit.lock_balances(balance.purse, &users, start()).await.expect("cannot lock a balance");
        }
        unit.put_balances(balances).await.expect("cannot write balances");
    });
}

async fn stored(rig: &dyn MarketRig, key: &str) -> Option<AssetOperation> {
    let keys = [operation_key(key)];
    let mut view = view(rig).await;
    view.operations_by_key(TenantId::DEFAULT, &keys).await.expect("cannot read operations").pop()
}

async fn page(
    rig: &dyn MarketRig,
    of: i64,
    purse: Purse,
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<LedgerEntry>> {
    let mut view = view(rig).await;
    view.entries_page(TenantId::DEFAULT, user(of), purse, before, limit).await.expect("cannot read entries")
}

async fn discrepancies(rig: &dyn MarketRig, of: Option<i64>, limit: usize) -> Vec<LedgerInconsistency> {
    let mut view = view(rig).await;
    ledger_inconsistencies(view.as_mut(), of.map(tenant), limit).await.expect("cannot check the ledger")
}

fn keys(operations: &[AssetOperation]) -> Vec<&str> {
    operations.iter().map(|operation| operation.key.as_str()).collect()
}

fn amounts(entries: &[Numbered<LedgerEntry>]) -> Vec<i64> {
    entries.iter().map(|entry| entry.effect.entry.amount).collect()
}

/// A posting without entries.
fn without_entries(operation: AssetOperation) -> Posting {
    Posting { operation, entries: Vec::new() }
}

/// An operation is read as it was written, of every kind and asset, with and without optional values.
pub async fn operation_is_read_as_written(rig: &dyn MarketRig) {
    let mut written: Vec<AssetOperation> =
        OperationKind::ALL.iter().map(|kind| AssetOperation { kind: *kind, ..operation("k") }).collect();
    written.extend(Asset::ALL.iter().map(|asset| AssetOperation { asset: *asset, ..operation("k") }));
    written.push(AssetOperation {
        user: Some(user(MAX_ID)),
        order: Some(order_id(MAX_ID)),
        refund: Some(refund_id(MAX_ID)),
        coupon: Some(coupon_id(MAX_ID)),
        amount: MAX_ID,
        balance_after: Some(MAX_ID),
        event_id: Some(event_id(&"~".repeat(64))),
        trace_id: Some("t".repeat(200)),
        at: later(1) + TimeDelta::microseconds(1),
        ..operation("k")
    });
    written.push(AssetOperation {
        amount: 0,
        balance_after: None,
        event_id: None,
        trace_id: None,
        ..operation("k")
    });
    written.push(AssetOperation { balance_after: Some(0), ..operation("k") });
    written.push(AssetOperation { asset: Asset::Cash, user: None, ..operation("k") });
    for (n, mut operation) in written.into_iter().enumerate() {
        let key = format!("k-{n}");
        operation.key = operation_key(&key);
        post(rig, &[without_entries(operation.clone())]).await;
        assert_eq!(stored(rig, &key).await, Some(operation));
    }
    let longest = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~".repeat(8)[..255].to_owned();
    post(rig, &[without_entries(operation(&longest))]).await;
    assert_eq!(stored(rig, &longest).await, Some(operation(&longest)));
}

/// Operations are found by their keys, each once; missing keys are omitted.
pub async fn operations_are_found_by_their_keys(rig: &dyn MarketRig) {
    post(rig, &[deposit("a", 10, 1), deposit("b", 11, 2), deposit("c", 10, 3)]).await;
    let keys = ["c", "a", "missing", "c"].map(operation_key);
    let mut view = view(rig).await;
    let mut seen = view.operations_by_key(TenantId::DEFAULT, &keys).await.unwrap();
    seen.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(seen, [deposit("a", 10, 1).operation, deposit("c", 10, 3).operation]);
    assert_eq!(view.operations_by_key(TenantId::DEFAULT, &[]).await.unwrap(), []);
}

/// Keys that differ in case or in one character are different keys and do not conflict.
pub async fn operation_keys_are_compared_byte_by_byte(rig: &dyn MarketRig) {
    let similar = ["grant:Key-1", "grant:key-1", "grant:KEY-1", "grant:key_1", "grant:key%1", "grant:key-1%"];
    for key in similar {
        assert_eq!(stored(rig, key).await, None, "{key}");
        post(rig, &[deposit(key, 10, 1)]).await;
    }
    for key in similar {
        assert_eq!(stored(rig, key).await, Some(deposit(key, 10, 1).operation));
        is_conflict(begin(rig).await.post(&[deposit(key, 10, 1)]).await);
    }
}

/// A duplicate key is a conflict, regardless of the other values of the operation.
pub async fn duplicate_operation_key_is_conflict(rig: &dyn MarketRig) {
    post(rig, &[deposit("a", 10, 1)]).await;
    is_conflict(begin(rig).await.post(&[deposit("a", 10, 1)]).await);
    is_conflict(begin(rig).await.post(&[deposit("b", 10, 1), grant("a", 11, 2)]).await);
    is_conflict(
        begin(rig).await.post(&[without_entries(AssetOperation { at: later(1), ..operation("a") })]).await,
    );
    is_conflict(begin(rig).await.post(&[deposit("c", 10, 1), deposit("c", 11, 1)]).await);
    let mut unit = begin(rig).await;
    unit.post(&[deposit("d", 10, 1)]).await.unwrap();
    is_conflict(unit.post(&[deposit("d", 10, 1)]).await);
    drop(unit);
    assert_eq!(amounts(&page(rig, 10, Wallet, None, 9).await), [1]);
    assert_eq!(stored(rig, "b").await, None);
}

/// Keys are unique per tenant, and a tenant reads only its own operations and entries.
pub async fn operations_are_isolated_by_tenant(rig: &dyn MarketRig) {
    let mut foreign = deposit("a", 10, 7);
    foreign.operation.tenant = tenant(2);
    foreign.operation.order = Some(order_id(1));
    post(rig, &[deposit("a", 10, 1), foreign.clone()]).await;
    let mut view = view(rig).await;
    let mut of = async |of: i64| view.operations_by_key(tenant(of), &[operation_key("a")]).await.unwrap();
    assert_eq!(of(1).await, [deposit("a", 10, 1).operation]);
    assert_eq!(of(2).await, std::slice::from_ref(&foreign.operation));
    assert_eq!(of(3).await, []);
    assert_eq!(view.operations_of(tenant(1), &[order_id(1)]).await.unwrap(), []);
    assert_eq!(view.operations_of(tenant(2), &[order_id(1)]).await.unwrap(), [foreign.operation.clone()]);
    let entries = view.entries_page(tenant(2), user(10), Wallet, None, 9).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].effect.operation, foreign.operation);
    assert_eq!(amounts(&page(rig, 10, Wallet, None, 9).await), [1]);
}

/// The operations of an order are returned in the order of posting, regardless of keys and times.
pub async fn operations_of_order_are_in_posting_order(rig: &dyn MarketRig) {
    let of = |key, order, seconds| {
        without_entries(AssetOperation { order: Some(order_id(order)), at: later(seconds), ..operation(key) })
    };
    post(rig, &[of("m", 1, 5), of("z", 1, 9), of("b", 2, 1)]).await;
    post(rig, &[of("a", 1, 9), of("c", 1, 1), without_entries(operation("n"))]).await;
    let mut view = view(rig).await;
    let seen = view.operations_of(TenantId::DEFAULT, &[order_id(1)]).await.unwrap();
    assert_eq!(keys(&seen), ["m", "z", "a", "c"]);
    assert_eq!(seen[2], of("a", 1, 9).operation);
    assert_eq!(keys(&view.operations_of(TenantId::DEFAULT, &[order_id(2)]).await.unwrap()), ["b"]);
    assert_eq!(view.operations_of(TenantId::DEFAULT, &[order_id(3)]).await.unwrap(), []);
}

/// A posting is rejected if its money entries or its points entries do not sum to zero.
pub async fn unbalanced_entries_are_refused(rig: &dyn MarketRig) {
    let with = |entries| Posting { operation: operation("k"), entries };
    for unbalanced in [
        with(vec![entry(Account::Wallet, 10, 5, 5)]),
        with(vec![Entry::own(Account::Platform, -4), entry(Account::Wallet, 10, 5, 5)]),
        with(vec![Entry::own(Account::PointsIssued, -5), entry(Account::Wallet, 10, 5, 5)]),
        with(vec![Entry::own(Account::PointsIssued, -5), entry(Account::Points, 10, 6, 6)]),
    ] {
        let refused = begin(rig).await.post(&[deposit("a", 10, 5), unbalanced]).await;
        assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    }
    assert_eq!(page(rig, 10, Wallet, None, 9).await, []);
    assert_eq!((stored(rig, "a").await, stored(rig, "k").await), (None, None));
}

/// Entries are read as they were written, with their operation and with ids that increase in the given order.
pub async fn entries_are_read_with_their_operation(rig: &dyn MarketRig) {
    let of_wallet = vec![entry(Account::Wallet, 10, -300, 200), entry(Account::WalletHold, 10, 300, 300)];
    let greatest = vec![Entry::own(Account::Gateway, -MAX_ID), entry(Account::Wallet, 11, MAX_ID, MAX_ID)];
    let of_points = vec![
        entry(Account::PointsDebt, 10, 40, -60),
        entry(Account::Points, 10, -90, 0),
        entry(Account::PointsHold, 10, 50, 50),
    ];
    let first = Posting { operation: operation("a"), entries: of_wallet.clone() };
    let second = Posting { operation: operation("b"), entries: of_points.clone() };
    let third = Posting { operation: operation("c"), entries: greatest.clone() };
    post(rig, &[first.clone(), second.clone(), third.clone()]).await;
    for (of, purse, expected, posting) in [
        (10, Wallet, &of_wallet[..], &first),
        (11, Wallet, &greatest[1..], &third),
        (10, Points, &of_points[..], &second),
    ] {
        let mut seen = page(rig, of, purse, None, 9).await;
        seen.reverse();
        assert!(seen.is_sorted_by(|a, b| a.id < b.id), "ids increase");
        let entries: Vec<Entry> = seen.iter().map(|row| row.effect.entry.clone()).collect();
        assert_eq!(entries, expected);
        assert!(seen.iter().all(|row| row.effect.operation == posting.operation));
    }
    assert_eq!(page(rig, 11, Points, None, 9).await, []);
    assert_eq!(page(rig, 12, Wallet, None, 9).await, []);
}

/// Entries are found by the keys of their operations, in one tenant; missing keys are omitted.
pub async fn entries_are_found_by_the_keys_of_their_operations(rig: &dyn MarketRig) {
    let mut foreign = deposit("a", 10, 7);
    foreign.operation.tenant = tenant(2);
    post(rig, &[deposit("a", 10, 1), grant("b", 11, 2), deposit("A", 12, 3), foreign.clone()]).await;
    let mut view = view(rig).await;
    let mut of = async |of: i64, keys: &[&str]| {
        let keys: Vec<_> = keys.iter().map(|key| operation_key(key)).collect();
        let mut found = view.entries_by_key(tenant(of), &keys).await.unwrap();
        found.sort_by(|(a, left), (b, right)| (a, left.amount).cmp(&(b, right.amount)));
        found
    };
    let entries_of = |posting: Posting| {
        let key = posting.operation.key.clone();
        posting.entries.into_iter().map(move |entry| (key.clone(), entry))
    };
    let ours: Vec<_> = entries_of(deposit("a", 10, 1)).chain(entries_of(grant("b", 11, 2))).collect();
    assert_eq!(of(1, &["b", "missing", "a", "b"]).await, ours);
    assert_eq!(of(2, &["a", "b", "A"]).await, entries_of(foreign).collect::<Vec<_>>());
    assert_eq!(of(1, &[]).await, []);
}

/// An account has at most one entry per key.
pub async fn second_entry_of_account_for_key_is_conflict(rig: &dyn MarketRig) {
    let mut twice = deposit("a", 10, 5);
    twice.entries.extend(deposit("a", 11, 6).entries);
    is_conflict(begin(rig).await.post(&[deposit("b", 10, 5), twice]).await);
    assert_eq!(page(rig, 10, Wallet, None, 9).await, []);
}

/// A page contains the entries of one user's purse, greatest id first.
pub async fn entry_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    for n in 1..=5 {
        post(rig, &[deposit(&format!("w{n}"), 10, n), grant(&format!("p{n}"), 10, 10 * n)]).await;
        post(rig, &[deposit(&format!("x{n}"), 11, 100 * n)]).await;
    }
    let all = page(rig, 10, Wallet, None, 100).await;
    assert_eq!(amounts(&all), [5, 4, 3, 2, 1]);
    assert_eq!(page(rig, 10, Wallet, None, 2).await, all[..2]);
    assert_eq!(page(rig, 10, Wallet, Some(all[1].id), 2).await, all[2..4]);
    assert_eq!(page(rig, 10, Wallet, Some(all[3].id), 2).await, all[4..]);
    assert_eq!(page(rig, 10, Wallet, Some(all[4].id), 2).await, []);
    assert_eq!(amounts(&page(rig, 10, Points, None, 3).await), [50, 40, 30]);
    assert_eq!(amounts(&page(rig, 11, Wallet, None, 1).await), [500]);
}

/// Totals are computed per tenant and account, in the order of tenants and accounts.
pub async fn account_totals_are_per_tenant(rig: &dyn MarketRig) {
    assert_eq!(view(rig).await.account_totals(None).await.unwrap(), []);
    let mut foreign = grant("a", 10, 7);
    foreign.operation.tenant = tenant(2);
    let freeze = Posting {
        operation: operation("d"),
        entries: vec![entry(Account::Wallet, 10, -30, 70), entry(Account::WalletHold, 10, 30, 30)],
    };
    post(rig, &[foreign, deposit("a", 10, 100), deposit("b", 11, 5), grant("c", 10, 40), freeze]).await;
    let total = |of, account, total| AccountTotal { tenant: tenant(of), account, total };
    let ours = [
        total(1, Account::Wallet, 75),
        total(1, Account::WalletHold, 30),
        total(1, Account::Points, 40),
        total(1, Account::Platform, -105),
        total(1, Account::PointsIssued, -40),
    ];
    let theirs = [total(2, Account::Points, 7), total(2, Account::PointsIssued, -7)];
    let mut view = view(rig).await;
    assert_eq!(view.account_totals(Some(tenant(1))).await.unwrap(), ours);
    assert_eq!(view.account_totals(Some(tenant(2))).await.unwrap(), theirs);
    assert_eq!(view.account_totals(Some(tenant(3))).await.unwrap(), []);
    assert_eq!(view.account_totals(None).await.unwrap(), [&ours[..], &theirs[..]].concat());
}

/// A ledger whose balances equal the sums of their entries has no discrepancies, even with frozen amounts and debts.
pub async fn consistent_ledger_has_no_discrepancies(rig: &dyn MarketRig) {
    assert_eq!(discrepancies(rig, None, 9).await, []);
    let mut movements = Vec::new();
    for purse in [Wallet, Points] {
        let own = if purse == Wallet { Account::Platform } else { Account::PointsIssued };
        let empty = Balance::empty(TenantId::DEFAULT, user(10), purse, start());
        let (received, first) = empty.receive(100, own, start()).unwrap();
        let (frozen, second) = received.freeze(30, start()).unwrap();
        let (now, third) = frozen.commit(10, start()).unwrap();
        movements.extend([first, second, third]);
        put(rig, &[now]).await;
    }
    let spent = Balance::empty(TenantId::DEFAULT, user(11), Points, start());
    let (owing, taken) = spent.revoke(5, start()).unwrap();
    movements.push(taken);
    put(rig, &[owing, balance(12, Wallet, 0)]).await;
    let postings: Vec<Posting> = (movements.into_iter().enumerate())
        .map(|(n, entries)| Posting { operation: operation(&format!("k{n}")), entries })
        .collect();
    post(rig, &postings).await;
    assert_eq!(discrepancies(rig, None, 9).await, []);
    assert_eq!(discrepancies(rig, Some(1), 9).await, []);
}

/// Each account whose balance differs from the sum of its entries is reported, sorted by tenant, user and account. A
/// debt is reported as a negative balance.
pub async fn balance_that_differs_from_entries_is_reported(rig: &dyn MarketRig) {
    let mut foreign = deposit("a", 10, 7);
    foreign.operation.tenant = tenant(2);
    post(rig, &[deposit("a", 10, 100), grant("b", 10, 40), deposit("c", 12, 5), foreign]).await;
    let points = Balance { frozen: 2, debt: 3, ..balance(10, Points, 0) };
    put(
        rig,
        &[
            Balance { frozen: 1, ..balance(10, Wallet, 99) },
            points,
            balance(11, Wallet, 4),
            Balance { tenant: tenant(2), ..balance(10, Wallet, 8) },
        ],
    )
    .await;
    let drifted = |of, who, account, balance, entries| LedgerInconsistency::Drifted {
        tenant: tenant(of),
        user: user(who),
        account,
        balance,
        entries,
    };
    let ours = [
        drifted(1, 10, Account::Wallet, 99, 100),
        drifted(1, 10, Account::WalletHold, 1, 0),
        drifted(1, 10, Account::Points, 0, 40),
        drifted(1, 10, Account::PointsHold, 2, 0),
        drifted(1, 10, Account::PointsDebt, -3, 0),
        drifted(1, 11, Account::Wallet, 4, 0),
        drifted(1, 12, Account::Wallet, 0, 5),
    ];
    let theirs = [drifted(2, 10, Account::Wallet, 8, 7)];
    assert_eq!(discrepancies(rig, Some(1), 99).await, ours);
    assert_eq!(discrepancies(rig, Some(2), 99).await, theirs);
    assert_eq!(discrepancies(rig, Some(3), 99).await, []);
    assert_eq!(discrepancies(rig, None, 99).await, [&ours[..], &theirs[..]].concat());
    assert_eq!(discrepancies(rig, None, 2).await, ours[..2]);
    let corrected = Balance { version: 2, ..balance(10, Wallet, 100) };
    put(rig, &[corrected]).await;
    assert_eq!(discrepancies(rig, Some(1), 99).await, ours[2..]);
}

/// A comparison in parts of any size finds every discrepancy once, also those of users without a balance, and ends.
pub async fn ledger_is_compared_in_parts(rig: &dyn MarketRig) {
    let mut postings: Vec<Posting> = (1..=7).map(|n| deposit(&format!("k{n}"), 10 + n, n)).collect();
    postings[1].operation.tenant = tenant(2);
    postings[6].operation.tenant = tenant(3);
    post(rig, &postings).await;
    put(
        rig,
        &[balance(9, Points, 5), balance(11, Wallet, 1), balance(13, Wallet, 4), balance(14, Points, 2)],
    )
    .await;
    put(rig, &[Balance { tenant: tenant(2), ..balance(12, Wallet, 9) }]).await;
    let all = discrepancies(rig, None, 99).await;
    let users: Vec<i64> = all
        .iter()
        .map(|found| match found {
            LedgerInconsistency::Drifted { user, .. } => user.get(),
            LedgerInconsistency::Unbalanced { key, .. } => panic!("{key} is balanced"),
        })
        .collect();
    assert_eq!(users, [9, 13, 14, 14, 15, 16, 12, 17]);
    for of in [None, Some(1), Some(2), Some(3), Some(4)] {
        let whole = discrepancies(rig, of, 99).await;
        for limit in [1, 2, 3] {
            let mut found = Vec::new();
            let mut position = Some(LedgerPosition::START);
            let mut parts = 0;
            while let Some(from) = position {
                let page = view(rig).await.compare_ledger(of.map(tenant), from, limit).await.unwrap();
                found.extend(page.inconsistencies);
                position = page.next;
                parts += 1;
                assert!(parts < 100, "the comparison does not end: {position:?}");
            }
            assert_eq!(found, whole, "{of:?} in parts of {limit}");
        }
    }
}

/// A large batch of operations is posted completely and found by key.
pub async fn large_batch_of_operations_is_posted_completely(rig: &dyn MarketRig) {
    let all: Vec<Posting> = (1..=700).map(|n| deposit(&format!("k{n}"), 1 + n % 7, n)).collect();
    post(rig, &all).await;
    post(rig, &[]).await;
    let keys: Vec<_> = all.iter().map(|posting| posting.operation.key.clone()).collect();
    let mut seen = view(rig).await.operations_by_key(TenantId::DEFAULT, &keys).await.unwrap();
    seen.sort_by_key(|operation| operation.amount);
    let expected: Vec<_> = all.into_iter().map(|posting| posting.operation).collect();
    assert_eq!(seen, expected);
    let entries = page(rig, 1, Wallet, None, 1_000).await;
    assert_eq!(amounts(&entries), (1..=100).rev().map(|n| 7 * n).collect::<Vec<_>>());
}

/// If several units of work post the same key concurrently, exactly one succeeds, with all its postings.
pub async fn concurrent_postings_of_one_key_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let own = format!("own-{n}");
            unit.post(&[deposit(&own, 10, 1 + n as i64), deposit("shared", 10, 1_000)]).await
        })
    })
    .await;
    let winner = one_succeeded(outcomes);
    assert_eq!(amounts(&page(rig, 10, Wallet, None, 99).await), [1_000, 1 + winner as i64]);
}
