//! Rules for balances of wallet and points.

use chrono::TimeDelta;
use handover_contract::concurrency::{RACERS, race};
use handover_contract::samples::{later, start, tenant};
use handover_events::{MAX_ID, TenantId};
use handover_outbox::ports::StoreError;
use marketplace_domain::{Balance, Purse};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{balance, user};

use Purse::{Points, Wallet};

async fn put(rig: &dyn MarketRig, balances: &[Balance]) {
    in_unit!(rig, |unit| {
        for balance in balances {
            let users = [(balance.tenant, balance.user)];
            unit.lock_balances(balance.purse, &users, start()).await.expect("cannot lock a balance");
        }
        unit.put_balances(balances).await.expect("cannot write balances");
    });
}

async fn stored(rig: &dyn MarketRig, of: i64, purse: Purse) -> Option<Balance> {
    view(rig).await.balance_of(TenantId::DEFAULT, user(of), purse).await.expect("cannot read a balance")
}

/// A balance is read as it was written, in both purses.
pub async fn balance_is_read_as_written(rig: &dyn MarketRig) {
    let later = later(3) + TimeDelta::microseconds(1);
    for (n, purse) in [(1, Wallet), (2, Points)] {
        let greatest = Balance { available: MAX_ID, frozen: MAX_ID, ..balance(n, purse, 0) };
        let debt = Balance { debt: 7, version: 70_000, update_time: later, ..balance(n + 10, Points, 0) };
        let most_debt = Balance { debt: MAX_ID, ..balance(n + 20, Points, 0) };
        let mixed = Balance { frozen: 3, ..balance(MAX_ID - n, purse, 2) };
        let written = [greatest, debt, most_debt, mixed];
        put(rig, &written).await;
        for balance in written {
            assert_eq!(stored(rig, balance.user.get(), balance.purse).await, Some(balance));
        }
    }
}

/// A balance does not exist before its first change, even if it was locked.
pub async fn balance_does_not_exist_before_first_change(rig: &dyn MarketRig) {
    assert_eq!(stored(rig, 10, Wallet).await, None);
    in_unit!(rig, |unit| {
        unit.lock_balances(Wallet, &[(TenantId::DEFAULT, user(10))], start()).await.unwrap();
        assert_eq!(unit.balance_of(TenantId::DEFAULT, user(10), Wallet).await.unwrap(), None);
    });
    assert_eq!(stored(rig, 10, Wallet).await, None);
    put(rig, &[balance(10, Wallet, 0)]).await;
    assert_eq!(
        stored(rig, 10, Wallet).await,
        Some(balance(10, Wallet, 0)),
        "a balance of zero must exist after a write"
    );
    assert_eq!(stored(rig, 10, Points).await, None);
}

/// Locking returns each balance once. A missing balance is returned as empty with version 0, each time it is locked.
pub async fn lock_returns_each_balance_once(rig: &dyn MarketRig) {
    put(rig, &[balance(10, Wallet, 5), balance(11, Points, 6)]).await;
    let users = [12, 10, 11, 12, 10].map(|of| (TenantId::DEFAULT, user(of)));
    for moment in [later(1), later(2)] {
        let empty = |of| Balance::empty(TenantId::DEFAULT, user(of), Wallet, moment);
        in_unit!(rig, |unit| {
            for _ in 0..2 {
                let mut locked = unit.lock_balances(Wallet, &users, moment).await.unwrap();
                locked.sort_by_key(|balance| balance.user);
                assert_eq!(locked, [balance(10, Wallet, 5), empty(11), empty(12)]);
            }
            assert_eq!(unit.lock_balances(Points, &[], moment).await.unwrap(), []);
        });
    }
    assert_eq!(stored(rig, 12, Wallet).await, None);
}

/// A balance may be written with any later version, and several times in one unit of work.
pub async fn balance_accepts_any_later_version(rig: &dyn MarketRig) {
    let at_version = |version, available| Balance { version, ..balance(10, Wallet, available) };
    put(rig, &[at_version(3, 5), balance(11, Wallet, 1)]).await;
    assert_eq!(stored(rig, 10, Wallet).await, Some(at_version(3, 5)));
    in_unit!(rig, |unit| {
        let users = [(TenantId::DEFAULT, user(10))];
        unit.lock_balances(Wallet, &users, start()).await.unwrap();
        unit.put_balances(&[]).await.unwrap();
        unit.put_balances(&[at_version(10, 6)]).await.unwrap();
        assert_eq!(unit.lock_balances(Wallet, &users, start()).await.unwrap(), [at_version(10, 6)]);
        unit.put_balances(&[at_version(11, 7)]).await.unwrap();
        let seen = unit.balance_of(TenantId::DEFAULT, user(10), Wallet).await.unwrap();
        assert_eq!(seen, Some(at_version(11, 7)));
    });
    assert_eq!(stored(rig, 10, Wallet).await, Some(at_version(11, 7)));
    assert_eq!(stored(rig, 11, Wallet).await, Some(balance(11, Wallet, 1)), "other rows must be unchanged");
}

/// A balance with a negative amount is rejected, in the first and in later writes.
pub async fn negative_balance_is_refused(rig: &dyn MarketRig) {
    put(rig, &[balance(10, Points, 5)]).await;
    for of in [10, 11] {
        let valid = Balance { version: 2, ..balance(of, Points, 6) };
        for invalid in [
            Balance { available: -1, ..valid.clone() },
            Balance { frozen: -1, ..valid.clone() },
            Balance { debt: -1, ..valid.clone() },
        ] {
            let mut unit = begin(rig).await;
            unit.lock_balances(Points, &[(TenantId::DEFAULT, user(of))], start()).await.unwrap();
            let refused = unit.put_balances(std::slice::from_ref(&invalid)).await;
            assert!(matches!(refused, Err(StoreError::Backend(_))), "{invalid:?}: {refused:?}");
        }
    }
    assert_eq!(stored(rig, 10, Points).await, Some(balance(10, Points, 5)));
    assert_eq!(stored(rig, 11, Points).await, None);
}

/// Balances of different tenants, users and purses are independent.
pub async fn balances_are_isolated_by_tenant_and_purse(rig: &dyn MarketRig) {
    let foreign = Balance { tenant: tenant(2), ..balance(10, Wallet, 2) };
    let written = [balance(10, Wallet, 1), foreign.clone(), balance(10, Points, 3), balance(11, Wallet, 4)];
    put(rig, &written).await;
    for balance in &written {
        let Balance { tenant, user, purse, .. } = *balance;
        let seen = view(rig).await.balance_of(tenant, user, purse).await.unwrap();
        assert_eq!(seen.as_ref(), Some(balance));
    }
    assert_eq!(view(rig).await.balance_of(tenant(2), user(10), Points).await.unwrap(), None);
    in_unit!(rig, |unit| {
        let both = [(tenant(2), user(10)), (tenant(1), user(10))];
        let mut locked = unit.lock_balances(Wallet, &both, start()).await.unwrap();
        locked.sort_by_key(|balance| balance.tenant);
        assert_eq!(locked, [balance(10, Wallet, 1), foreign]);
    });
}

/// A large batch is locked and written completely.
pub async fn large_batch_of_balances_is_written_completely(rig: &dyn MarketRig) {
    let users: Vec<_> = (1..=700).map(|of| (TenantId::DEFAULT, user(of))).collect();
    for round in 1..=2 {
        in_unit!(rig, |unit| {
            let mut locked = unit.lock_balances(Points, &users, start()).await.unwrap();
            assert_eq!(locked.len(), 700);
            for balance in &mut locked {
                assert_eq!(balance.version, round - 1);
                balance.version += 1;
                balance.available += balance.user.get();
            }
            unit.put_balances(&locked).await.unwrap();
        });
    }
    for of in [1, 350, 699, 700] {
        let expected = Balance { version: 2, ..balance(of, Points, 2 * of) };
        assert_eq!(stored(rig, of, Points).await, Some(expected));
    }
}

/// Concurrent units of work that lock one balance lose no update, whether the row exists or not.
pub async fn concurrent_updates_of_one_balance_are_not_lost(rig: &dyn MarketRig) {
    for round in 1..=3 {
        let outcomes = race(&rig.market(), |unit, _| {
            Box::pin(async move {
                let locked = unit.lock_balances(Wallet, &[(TenantId::DEFAULT, user(10))], start()).await?;
                tokio::task::yield_now().await;
                let incremented = |balance: &Balance| Balance {
                    available: balance.available + 1,
                    version: balance.version + 1,
                    ..balance.clone()
                };
                unit.put_balances(&locked.iter().map(incremented).collect::<Vec<_>>()).await
            })
        })
        .await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let all = round * RACERS as i64;
        let expected = Balance { version: all, ..balance(10, Wallet, all) };
        assert_eq!(stored(rig, 10, Wallet).await, Some(expected));
    }
}

/// Concurrent units of work that lock the same balances in different sequences all succeed and lose no update.
pub async fn concurrent_balance_locks_in_different_sequences_succeed(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let mut users: Vec<_> = (10..15).map(|of| (TenantId::DEFAULT, user(of))).collect();
            users.rotate_left(n % 5);
            if n.is_multiple_of(2) {
                users.reverse();
            }
            let mut locked = unit.lock_balances(Points, &users, start()).await?;
            for balance in &mut locked {
                balance.version += 1;
            }
            unit.put_balances(&locked).await
        })
    })
    .await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    for of in 10..15 {
        assert_eq!(stored(rig, of, Points).await.map(|balance| balance.version), Some(RACERS as i64));
    }
}
