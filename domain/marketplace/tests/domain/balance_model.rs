//! Compares wallets and points with a model of plain numbers: net amount, held amount, and account totals.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use handover_events::MAX_ID;
use marketplace_domain::{Account, AssetRefusal, Balance, Entry, Purse};
use proptest::prelude::*;

use crate::common::{BUYER, id, model_cases, one_of, placed_at};

#[derive(Debug, Clone, Copy)]
enum Step {
    Receive,
    Freeze,
    Commit,
    Release,
    Revert,
    TakeBack,
}

const STEPS: [Step; 6] =
    [Step::Receive, Step::Freeze, Step::Commit, Step::Release, Step::Revert, Step::TakeBack];

/// A boundary value near which amounts are generated.
#[derive(Debug, Clone, Copy)]
enum Near {
    Zero,
    Available,
    Frozen,
    Debt,
    Capacity,
    Maximum,
    Minimum,
}

const BOUNDARIES: [Near; 7] =
    [Near::Zero, Near::Available, Near::Frozen, Near::Debt, Near::Capacity, Near::Maximum, Near::Minimum];

/// An expected rejection.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Insufficient { asked: i128, available: i128 },
    TooMuch,
}

/// A balance as two numbers, and one number per marketplace account.
#[derive(Default)]
struct Model {
    /// Credits minus debits of the spendable amount; negative values are a debt.
    net: i128,
    held: i128,
    marketplace: BTreeMap<&'static str, i128>,
}

const GREATEST: i128 = 9_007_199_254_740_991;

impl Model {
    fn available(&self) -> i128 {
        self.net.max(0)
    }

    fn debt(&self) -> i128 {
        (-self.net).max(0)
    }

    fn capacity(&self) -> i128 {
        GREATEST - self.available() - self.held + self.debt()
    }

    fn amount(&self, near: Near, by: i64) -> i64 {
        let amount = match near {
            Near::Zero => 0,
            Near::Available => self.available(),
            Near::Frozen => self.held,
            Near::Debt => self.debt(),
            Near::Capacity => self.capacity(),
            Near::Maximum => GREATEST,
            Near::Minimum => return i64::MIN + by.max(0),
        };
        i64::try_from(amount).unwrap() + by
    }

    fn step(&mut self, purse: Purse, step: Step, amount: i64) -> Result<(), Refused> {
        let amount = i128::from(amount);
        let wallet = purse == Purse::Wallet;
        if !(0..=GREATEST).contains(&amount) {
            return Err(Refused::TooMuch);
        }
        let sink = if wallet { "platform" } else { "points_issued" };
        let source = if wallet { "gateway" } else { "points_issued" };
        let enough = |available: i128| {
            if amount > available { Err(Refused::Insufficient { asked: amount, available }) } else { Ok(()) }
        };
        // Changes of `net` and `held`, and the marketplace account that receives the opposite amount.
        let (net, held, other) = match step {
            Step::Receive => (amount, 0, source),
            Step::Revert => (amount, 0, sink),
            Step::Freeze => {
                enough(self.available())?;
                (-amount, amount, sink)
            }
            Step::Commit => {
                enough(self.held)?;
                (0, -amount, sink)
            }
            Step::Release => {
                enough(self.held)?;
                (amount, -amount, sink)
            }
            Step::TakeBack => {
                if wallet {
                    enough(self.available())?;
                }
                (-amount, 0, sink)
            }
        };
        let net_after = self.net + net;
        let held_after = self.held + held;
        if net_after.max(0) + held_after > GREATEST || net_after < -GREATEST {
            return Err(Refused::TooMuch);
        }
        self.net = net_after;
        self.held = held_after;
        *self.marketplace.entry(other).or_default() -= net + held;
        Ok(())
    }
}

fn apply(balance: &Balance, step: Step, amount: i64) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
    let now = balance.update_time + TimeDelta::seconds(1);
    let source = if balance.purse == Purse::Wallet { Account::Gateway } else { Account::PointsIssued };
    match step {
        Step::Receive => balance.receive(amount, source, now),
        Step::Freeze => balance.freeze(amount, now),
        Step::Commit => balance.commit(amount, now),
        Step::Release => balance.release(amount, now),
        Step::Revert => balance.revert(amount, now),
        Step::TakeBack => balance.revoke(amount, now),
    }
}

fn refused(refusal: &AssetRefusal, purse: Purse) -> Refused {
    let asset = purse.asset();
    if let AssetRefusal::Insufficient { asked, available, .. } = *refusal {
        assert_eq!(*refusal, AssetRefusal::Insufficient { asset, asked, available });
        return Refused::Insufficient { asked: asked.into(), available: available.into() };
    }
    assert_eq!(*refusal, AssetRefusal::TooMuch { asset });
    Refused::TooMuch
}

/// Sum of the entries per account.
#[derive(Default)]
struct Ledger(BTreeMap<&'static str, i128>);

impl Ledger {
    fn post(&mut self, entries: &[Entry], purse: Purse) {
        assert_eq!(
            entries.iter().map(|entry| i128::from(entry.amount)).sum::<i128>(),
            0,
            "entries must sum to zero"
        );
        for (at, entry) in entries.iter().enumerate() {
            assert_ne!(entry.amount, 0, "no entry may have amount zero");
            assert!(entry.amount.unsigned_abs() <= MAX_ID.unsigned_abs());
            assert_eq!(entry.account.asset(), purse.asset());
            assert!(
                entries[..at].iter().all(|other| other.account != entry.account),
                "an operation must not have two entries on one account"
            );
            let total = self.0.entry(entry.account.as_str()).or_default();
            *total += i128::from(entry.amount);
            let own = ["platform", "gateway", "points_issued"].contains(&entry.account.as_str());
            assert_eq!(entry.user, (!own).then(|| id(BUYER)));
            assert_eq!(entry.balance_after.map(i128::from), (!own).then_some(*total));
        }
    }

    fn total(&self, account: &str) -> i128 {
        self.0.get(account).copied().unwrap_or_default()
    }
}

fn assert_agreement(balance: &Balance, ledger: &Ledger, model: &Model) {
    let available = model.available();
    let frozen = model.held;
    let debt = model.debt();
    let numbers = [balance.available, balance.frozen, balance.debt].map(i128::from);
    assert_eq!(numbers, [available, frozen, debt]);
    assert!(numbers.iter().all(|number| (0..=GREATEST).contains(number)));
    assert!(
        balance.debt == 0 || balance.available == 0,
        "the available amount must be zero while there is a debt"
    );
    let purse = balance.purse.as_str();
    let hold = format!("{purse}_hold");
    assert_eq!(
        [ledger.total(purse), ledger.total(&hold), ledger.total("points_debt")],
        [available, frozen, -debt]
    );
    for account in ["platform", "gateway", "points_issued"] {
        assert_eq!(
            ledger.total(account),
            model.marketplace.get(account).copied().unwrap_or_default(),
            "{account}"
        );
    }
    assert_eq!(ledger.0.values().sum::<i128>(), 0, "the accounts must sum to zero");
}

fn follows_the_model(purse: Purse, steps: &[(Step, Near, i64)]) {
    let mut model = Model::default();
    let mut ledger = Ledger::default();
    let mut balance = Balance::empty(id(3), id(BUYER), purse, placed_at());
    for (step, near, by) in steps {
        let amount = model.amount(*near, *by);
        let expected = model.step(purse, *step, amount);
        let changed = apply(&balance, *step, amount).map_err(|refusal| refused(&refusal, purse));
        assert_eq!(changed.as_ref().map(|_| ()), expected.as_ref().copied(), "{step:?} {amount}");
        if let Ok((after, entries)) = changed {
            assert_eq!(after.version, balance.version + 1);
            assert_eq!(after.update_time, balance.update_time + TimeDelta::seconds(1));
            assert_eq!((after.tenant, after.user, after.purse), (balance.tenant, balance.user, purse));
            ledger.post(&entries, purse);
            balance = after;
        }
        assert_agreement(&balance, &ledger, &model);
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, Near, i64)>> {
    let by = prop_oneof![3 => -1..=1i64, 2 => 0..10i64, 1 => -1000..1000i64];
    prop::collection::vec((one_of(&STEPS), one_of(&BOUNDARIES), by), 0..40)
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn wallet_agrees_with_the_model(steps in steps()) {
        follows_the_model(Purse::Wallet, &steps);
    }

    #[test]
    fn points_agree_with_the_model(steps in steps()) {
        follows_the_model(Purse::Points, &steps);
    }
}
