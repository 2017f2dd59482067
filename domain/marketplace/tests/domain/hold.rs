//! A hold is pending, then committed or released, exactly one of the two, and what was committed goes back at most once.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    Asset, AssetOperation, AssetRefusal, Hold, HoldStatus, OperationKey, OperationKind,
};
use proptest::prelude::*;

use crate::common::{BUYER, at, id, model_cases, one_of, placed_at};

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00.5Z")
}

fn frozen(asset: Asset) -> Hold {
    let coupon = (asset == Asset::Coupon).then(|| id(80_001));
    Hold::frozen((id(3), id(900_001)), id(BUYER), asset, 300, coupon, placed_at())
}

fn tombstone(asset: Asset) -> Hold {
    Hold::tombstone((id(3), id(900_001)), id(BUYER), asset, placed_at())
}

fn committed(asset: Asset) -> Hold {
    frozen(asset).commit(placed_at()).unwrap().unwrap()
}

#[test]
fn a_new_hold_is_pending() {
    let expected = Hold {
        tenant: id(3),
        order: id(900_001),
        asset: Asset::Coupon,
        user: id(BUYER),
        amount: 300,
        coupon: Some(id(80_001)),
        status: HoldStatus::Frozen,
        reverted: false,
        version: 1,
        create_time: placed_at(),
        update_time: placed_at(),
    };
    assert_eq!(frozen(Asset::Coupon), expected);
}

#[test]
fn a_tombstone_is_a_released_hold_over_nothing() {
    for asset in Asset::HELD {
        let expected = Hold { amount: 0, coupon: None, status: HoldStatus::Released, ..frozen(asset) };
        assert_eq!(tombstone(asset), expected);
        // The late lock finds it and does nothing, the release may come again.
        assert_eq!(tombstone(asset).release(now()), Ok(None));
    }
}

#[test]
fn a_step_changes_the_status_and_nothing_else() {
    for asset in Asset::HELD {
        let moved = |status| Hold { status, version: 2, update_time: now(), ..frozen(asset) };
        assert_eq!(frozen(asset).commit(now()), Ok(Some(moved(HoldStatus::Committed))));
        assert_eq!(frozen(asset).release(now()), Ok(Some(moved(HoldStatus::Released))));
        let reverted = Hold { reverted: true, version: 3, update_time: now(), ..committed(asset) };
        assert_eq!(committed(asset).revert(now()), Ok(Some(reverted)));
    }
}

#[test]
fn a_hold_that_has_ended_does_not_end_the_other_way() {
    for asset in Asset::HELD {
        let ended = |status| Err(AssetRefusal::HoldEnded { asset, status });
        let released = frozen(asset).release(now()).unwrap().unwrap();
        assert_eq!(released.commit(now()), ended(HoldStatus::Released));
        assert_eq!(tombstone(asset).commit(now()), ended(HoldStatus::Released));
        assert_eq!(committed(asset).release(now()), ended(HoldStatus::Committed));
        let reverted = committed(asset).revert(now()).unwrap().unwrap();
        assert_eq!(reverted.release(now()), ended(HoldStatus::Committed));
    }
    let refusal = tombstone(Asset::Wallet).commit(now()).unwrap_err();
    assert_eq!(refusal.to_string(), "the wallet hold of this order is RELEASED already");
}

#[test]
fn nothing_is_given_back_that_was_not_committed() {
    for asset in Asset::HELD {
        let released = frozen(asset).release(now()).unwrap().unwrap();
        for hold in [frozen(asset), released, tombstone(asset)] {
            assert_eq!(hold.revert(now()), Err(AssetRefusal::BeyondCommitted { asset }));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Lock,
    Commit,
    Release,
    Revert,
}

const STEPS: [Step; 4] = [Step::Lock, Step::Commit, Step::Release, Step::Revert];

/// A hold as plain facts, and the answer to a step: changed, nothing to do, or refused with a word.
#[derive(Default)]
struct Model {
    there: bool,
    over: i64,
    ended: Option<&'static str>,
    gave_back: bool,
    changes: i64,
}

impl Model {
    fn step(&mut self, step: Step, amount: i64) -> Result<bool, &'static str> {
        let changes = match (step, self.there, self.ended) {
            // The lock comes first, or comes late and finds what the release left.
            (Step::Lock, there, _) => !there,
            (Step::Commit | Step::Revert, false, _) => return Err("not locked"),
            (Step::Release, false, _) => true,
            (Step::Commit, true, Some("released")) => return Err("ended as RELEASED"),
            (Step::Release, true, Some("committed")) => return Err("ended as COMMITTED"),
            (Step::Commit | Step::Release, true, ended) => ended.is_none(),
            (Step::Revert, true, Some("committed")) => !self.gave_back,
            (Step::Revert, true, _) => return Err("beyond what was committed"),
        };
        if changes {
            match step {
                Step::Lock => self.over = amount,
                Step::Commit => self.ended = Some("committed"),
                Step::Release => self.ended = Some("released"),
                Step::Revert => self.gave_back = true,
            }
            self.there = true;
            self.changes += 1;
        }
        Ok(changes)
    }
}

/// What a consumer does with the hold that it finds, or does not.
fn apply(
    found: Option<&Hold>,
    step: Step,
    amount: i64,
    now: DateTime<Utc>,
) -> Result<Option<Hold>, AssetRefusal> {
    let key = (id(3), id(900_001));
    let not_locked = Err(AssetRefusal::NotLocked { asset: Asset::Wallet });
    match (step, found) {
        (Step::Lock, None) => Ok(Some(Hold::frozen(key, id(BUYER), Asset::Wallet, amount, None, now))),
        (Step::Lock, Some(_)) => Ok(None),
        (Step::Release, None) => Ok(Some(Hold::tombstone(key, id(BUYER), Asset::Wallet, now))),
        (Step::Commit | Step::Revert, None) => not_locked,
        (Step::Commit, Some(hold)) => hold.commit(now),
        (Step::Release, Some(hold)) => hold.release(now),
        (Step::Revert, Some(hold)) => hold.revert(now),
    }
}

fn word(refusal: &AssetRefusal) -> &'static str {
    let asset = Asset::Wallet;
    let words = [
        (AssetRefusal::NotLocked { asset }, "not locked"),
        (AssetRefusal::HoldEnded { asset, status: HoldStatus::Released }, "ended as RELEASED"),
        (AssetRefusal::HoldEnded { asset, status: HoldStatus::Committed }, "ended as COMMITTED"),
        (AssetRefusal::BeyondCommitted { asset }, "beyond what was committed"),
    ];
    words.iter().find(|(known, _)| known == refusal).expect("a refusal of holds").1
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn a_hold_does_what_the_plain_facts_do(
        steps in prop::collection::vec((one_of(&STEPS), 1..1000i64), 0..20),
    ) {
        let (mut model, mut hold, mut now) = (Model::default(), None::<Hold>, placed_at());
        for (step, amount) in steps {
            now += TimeDelta::seconds(1);
            let done = apply(hold.as_ref(), step, amount, now).map_err(|refusal| word(&refusal));
            prop_assert_eq!(done.as_ref().map(Option::is_some).map_err(|word| *word), model.step(step, amount));
            if let Ok(Some(after)) = done {
                prop_assert_eq!(after.update_time, now);
                hold = Some(after);
            }
            prop_assert_eq!(hold.is_some(), model.there);
            let Some(hold) = &hold else { continue };
            let ended = match hold.status {
                HoldStatus::Frozen => None,
                HoldStatus::Committed => Some("committed"),
                HoldStatus::Released => Some("released"),
            };
            prop_assert_eq!((ended, hold.reverted), (model.ended, model.gave_back));
            prop_assert_eq!((hold.amount, hold.version), (model.over, model.changes));
        }
    }
}

/// The operation that a step of the hold leaves.
fn operation(hold: &Hold, kind: OperationKind, at: DateTime<Utc>) -> AssetOperation {
    AssetOperation {
        tenant: hold.tenant,
        key: OperationKey::stored(format!("{kind}:{}", hold.asset)),
        asset: hold.asset,
        kind,
        user: hold.user,
        order: Some(hold.order),
        refund: None,
        coupon: hold.coupon,
        amount: hold.amount,
        balance_after: None,
        event_id: None,
        trace_id: None,
        at,
    }
}

#[test]
fn a_hold_can_be_told_by_its_operations() {
    use OperationKind::{Capture, Commit, Deposit, Earn, Freeze, Release, Revert};
    for asset in Asset::HELD {
        let first = frozen(asset);
        let over = |end: Hold| Hold { version: 1, ..end };
        let lives = [
            (vec![Freeze], first.clone()),
            (vec![Freeze, Commit], over(first.commit(now()).unwrap().unwrap())),
            (vec![Release, Freeze], over(first.release(now()).unwrap().unwrap())),
            (vec![Freeze, Commit, Revert], over(committed(asset).revert(now()).unwrap().unwrap())),
        ];
        for (kinds, expected) in lives {
            let at = |kind: &OperationKind| if *kind == Freeze { placed_at() } else { now() };
            let mut told: Vec<_> = kinds.iter().map(|kind| operation(&first, *kind, at(kind))).collect();
            // What moves no hold, and what is of another asset, says nothing of it.
            told.extend([Deposit, Earn, Capture].map(|kind| operation(&first, kind, now())));
            for other in Asset::HELD.into_iter().filter(|other| *other != asset) {
                told.push(operation(&frozen(other), Revert, now()));
            }
            assert_eq!(Hold::told_by(&told, asset), Some(expected), "{kinds:?}");
        }
        assert_eq!(Hold::told_by(&[], asset), None);
        assert_eq!(Hold::told_by(&[operation(&first, Earn, now())], asset), None);
    }
}
