//! A hold is pending, then either committed or released; a committed hold is reverted at most once.

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
fn new_hold_is_pending() {
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
fn tombstone_is_a_released_hold_with_amount_zero() {
    for asset in Asset::HELD {
        let expected = Hold { amount: 0, coupon: None, status: HoldStatus::Released, ..frozen(asset) };
        assert_eq!(tombstone(asset), expected);
        // A repeated release has no effect.
        assert_eq!(tombstone(asset).release(now()), Ok(None));
    }
}

#[test]
fn transition_changes_only_status_reverted_version_and_time() {
    for asset in Asset::HELD {
        let moved = |status| Hold { status, version: 2, update_time: now(), ..frozen(asset) };
        assert_eq!(frozen(asset).commit(now()), Ok(Some(moved(HoldStatus::Committed))));
        assert_eq!(frozen(asset).release(now()), Ok(Some(moved(HoldStatus::Released))));
        let reverted = Hold { reverted: true, version: 3, update_time: now(), ..committed(asset) };
        assert_eq!(committed(asset).revert(now()), Ok(Some(reverted)));
    }
}

#[test]
fn ended_hold_cannot_end_with_the_other_status() {
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
    assert_eq!(refusal.to_string(), "the wallet hold of this order is already RELEASED");
}

#[test]
fn hold_that_was_not_committed_cannot_be_reverted() {
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

/// A hold as plain values. [`Model::step`] returns whether it changed the hold, or the reason of a rejection.
#[derive(Default)]
struct Model {
    exists: bool,
    amount: i64,
    ended: Option<&'static str>,
    reverted: bool,
    changes: i64,
}

impl Model {
    fn step(&mut self, step: Step, amount: i64) -> Result<bool, &'static str> {
        let changes = match (step, self.exists, self.ended) {
            // A lock has an effect only if there is neither a hold nor a tombstone.
            (Step::Lock, exists, _) => !exists,
            (Step::Commit | Step::Revert, false, _) => return Err("not locked"),
            (Step::Release, false, _) => true,
            (Step::Commit, true, Some("released")) => return Err("ended as RELEASED"),
            (Step::Release, true, Some("committed")) => return Err("ended as COMMITTED"),
            (Step::Commit | Step::Release, true, ended) => ended.is_none(),
            (Step::Revert, true, Some("committed")) => !self.reverted,
            (Step::Revert, true, _) => return Err("reverts more than was committed"),
        };
        if changes {
            match step {
                Step::Lock => self.amount = amount,
                Step::Commit => self.ended = Some("committed"),
                Step::Release => self.ended = Some("released"),
                Step::Revert => self.reverted = true,
            }
            self.exists = true;
            self.changes += 1;
        }
        Ok(changes)
    }
}

/// Locks, commits, releases or reverts a hold as a consumer does. `found` is `None` if there is no hold; the result is
/// `None` if nothing changes.
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

fn label(refusal: &AssetRefusal) -> &'static str {
    let asset = Asset::Wallet;
    let labels = [
        (AssetRefusal::NotLocked { asset }, "not locked"),
        (AssetRefusal::HoldEnded { asset, status: HoldStatus::Released }, "ended as RELEASED"),
        (AssetRefusal::HoldEnded { asset, status: HoldStatus::Committed }, "ended as COMMITTED"),
        (AssetRefusal::BeyondCommitted { asset }, "reverts more than was committed"),
    ];
    labels.iter().find(|(known, _)| known == refusal).expect("the refusal must have a label").1
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn hold_agrees_with_the_model(
        steps in prop::collection::vec((one_of(&STEPS), 1..1000i64), 0..20),
    ) {
        let mut model = Model::default();
        let mut hold = None::<Hold>;
        let mut now = placed_at();
        for (step, amount) in steps {
            now += TimeDelta::seconds(1);
            let done = apply(hold.as_ref(), step, amount, now).map_err(|refusal| label(&refusal));
            prop_assert_eq!(done.as_ref().map(Option::is_some).map_err(|label| *label), model.step(step, amount));
            if let Ok(Some(after)) = done {
                prop_assert_eq!(after.update_time, now);
                hold = Some(after);
            }
            prop_assert_eq!(hold.is_some(), model.exists);
            let Some(hold) = &hold else { continue };
            let ended = match hold.status {
                HoldStatus::Frozen => None,
                HoldStatus::Committed => Some("committed"),
                HoldStatus::Released => Some("released"),
            };
            prop_assert_eq!((ended, hold.reverted), (model.ended, model.reverted));
            prop_assert_eq!((hold.amount, hold.version), (model.amount, model.changes));
        }
    }
}

/// The operation recorded for a transition of the hold.
fn operation(hold: &Hold, kind: OperationKind, at: DateTime<Utc>) -> AssetOperation {
    AssetOperation {
        tenant: hold.tenant,
        key: OperationKey::stored(format!("{kind}:{}", hold.asset)),
        asset: hold.asset,
        kind,
        user: Some(hold.user),
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
fn hold_can_be_reconstructed_from_its_operations() {
    use OperationKind::{Capture, Commit, Deposit, Earn, Freeze, Release, Revert};
    for asset in Asset::HELD {
        let first = frozen(asset);
        let over = |end: Hold| Hold { version: 1, ..end };
        let histories = [
            (vec![Freeze], first.clone()),
            (vec![Freeze, Commit], over(first.commit(now()).unwrap().unwrap())),
            (vec![Release, Freeze], over(first.release(now()).unwrap().unwrap())),
            (vec![Freeze, Commit, Revert], over(committed(asset).revert(now()).unwrap().unwrap())),
        ];
        for (kinds, expected) in histories {
            let at = |kind: &OperationKind| if *kind == Freeze { placed_at() } else { now() };
            let mut operations: Vec<_> =
                kinds.iter().map(|kind| operation(&first, *kind, at(kind))).collect();
            // Operations of other kinds and of other assets do not affect the hold.
            operations.extend([Deposit, Earn, Capture].map(|kind| operation(&first, kind, now())));
            for other in Asset::HELD.into_iter().filter(|other| *other != asset) {
                operations.push(operation(&frozen(other), Revert, now()));
            }
            assert_eq!(Hold::from_operations(&operations, asset), Some(expected), "{kinds:?}");
        }
        assert_eq!(Hold::from_operations(&[], asset), None);
        assert_eq!(Hold::from_operations(&[operation(&first, Earn, now())], asset), None);
    }
}
