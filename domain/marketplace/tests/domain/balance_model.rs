//! Wallets and points against plain numbers: what came and went, what is held, and what every account must add up to.

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

/// An amount, from where the interesting ones are.
#[derive(Debug, Clone, Copy)]
enum Near {
    Nothing,
    Available,
    Frozen,
    Debt,
    Room,
    Greatest,
    Least,
}

const PLACES: [Near; 7] =
    [Near::Nothing, Near::Available, Near::Frozen, Near::Debt, Near::Room, Near::Greatest, Near::Least];

/// What the model refuses, and with which numbers.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    NotEnough { asked: i128, there_is: i128 },
    TooMuch,
}

/// A purse as two numbers, and the accounts of the marketplace as one number each.
#[derive(Default)]
struct Model {
    /// What came minus what went, of what can be spent: below zero it is owed.
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

    fn room(&self) -> i128 {
        GREATEST - self.available() - self.held + self.debt()
    }

    fn amount(&self, near: Near, by: i64) -> i64 {
        let amount = match near {
            Near::Nothing => 0,
            Near::Available => self.available(),
            Near::Frozen => self.held,
            Near::Debt => self.debt(),
            Near::Room => self.room(),
            Near::Greatest => GREATEST,
            Near::Least => return i64::MIN + by.max(0),
        };
        i64::try_from(amount).unwrap() + by
    }

    fn step(&mut self, purse: Purse, step: Step, amount: i64) -> Result<(), Refused> {
        let (amount, wallet) = (i128::from(amount), purse == Purse::Wallet);
        if !(0..=GREATEST).contains(&amount) {
            return Err(Refused::TooMuch);
        }
        let sink = if wallet { "platform" } else { "points_issued" };
        let source = if wallet { "gateway" } else { "points_issued" };
        let enough = |there_is: i128| {
            if amount > there_is { Err(Refused::NotEnough { asked: amount, there_is }) } else { Ok(()) }
        };
        // What comes to either, and the account of the marketplace that the rest comes from.
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
        let (net_after, held_after) = (self.net + net, self.held + held);
        if net_after.max(0) + held_after > GREATEST || net_after < -GREATEST {
            return Err(Refused::TooMuch);
        }
        (self.net, self.held) = (net_after, held_after);
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
        Step::TakeBack => balance.take_back(amount, now),
    }
}

fn refused(refusal: &AssetRefusal, purse: Purse) -> Refused {
    let asset = purse.asset();
    if let AssetRefusal::Insufficient { asked, available, .. } = *refusal {
        assert_eq!(*refusal, AssetRefusal::Insufficient { asset, asked, available });
        return Refused::NotEnough { asked: asked.into(), there_is: available.into() };
    }
    assert_eq!(*refusal, AssetRefusal::TooMuch { asset });
    Refused::TooMuch
}

/// What the entries have added up to, in each account.
#[derive(Default)]
struct Ledger(BTreeMap<&'static str, i128>);

impl Ledger {
    fn post(&mut self, entries: &[Entry], purse: Purse) {
        assert_eq!(entries.iter().map(|entry| i128::from(entry.amount)).sum::<i128>(), 0, "double entry");
        for (at, entry) in entries.iter().enumerate() {
            assert_ne!(entry.amount, 0, "an entry over nothing");
            assert!(entry.amount.unsigned_abs() <= MAX_ID.unsigned_abs());
            assert_eq!(entry.account.asset(), purse.asset());
            assert!(entries[..at].iter().all(|other| other.account != entry.account), "an account once");
            let total = self.0.entry(entry.account.as_str()).or_default();
            *total += i128::from(entry.amount);
            let own = ["platform", "gateway", "points_issued"].contains(&entry.account.as_str());
            assert_eq!(entry.user, (!own).then(|| id(BUYER)));
            assert_eq!(entry.balance_after.map(i128::from), (!own).then_some(*total));
        }
    }

    fn holds(&self, account: &str) -> i128 {
        self.0.get(account).copied().unwrap_or_default()
    }
}

fn agrees(balance: &Balance, ledger: &Ledger, model: &Model) {
    let (available, frozen, debt) = (model.available(), model.held, model.debt());
    let numbers = [balance.available, balance.frozen, balance.debt].map(i128::from);
    assert_eq!(numbers, [available, frozen, debt]);
    assert!(numbers.iter().all(|number| (0..=GREATEST).contains(number)));
    assert!(balance.debt == 0 || balance.available == 0, "where there is a debt, nothing is available");
    let purse = balance.purse.as_str();
    let hold = format!("{purse}_hold");
    assert_eq!(
        [ledger.holds(purse), ledger.holds(&hold), ledger.holds("points_debt")],
        [available, frozen, -debt]
    );
    for account in ["platform", "gateway", "points_issued"] {
        assert_eq!(
            ledger.holds(account),
            model.marketplace.get(account).copied().unwrap_or_default(),
            "{account}"
        );
    }
    assert_eq!(ledger.0.values().sum::<i128>(), 0, "all accounts together");
}

fn follows_the_model(purse: Purse, steps: &[(Step, Near, i64)]) {
    let (mut model, mut ledger) = (Model::default(), Ledger::default());
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
        agrees(&balance, &ledger, &model);
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, Near, i64)>> {
    let by = prop_oneof![3 => -1..=1i64, 2 => 0..10i64, 1 => -1000..1000i64];
    prop::collection::vec((one_of(&STEPS), one_of(&PLACES), by), 0..40)
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn a_wallet_does_what_the_plain_numbers_do(steps in steps()) {
        follows_the_model(Purse::Wallet, &steps);
    }

    #[test]
    fn points_do_what_the_plain_numbers_do(steps in steps()) {
        follows_the_model(Purse::Points, &steps);
    }
}
