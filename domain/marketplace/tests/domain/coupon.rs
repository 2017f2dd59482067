//! A coupon is locked for one order, used once, and available again only after the order ends unpaid or is refunded.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{Asset, AssetRefusal, Coupon, CouponStatus, OrderId};
use proptest::prelude::*;

use crate::common::{BUYER, SELLER, coupon, id, model_cases, money, one_of, placed_at};

/// Times before, at and after the expiry.
fn moments() -> [DateTime<Utc>; 3] {
    let end = issued().expires_at;
    [end - TimeDelta::nanoseconds(1), end, end + TimeDelta::days(1)]
}

fn issued() -> Coupon {
    coupon("10.00", "50.00")
}

fn order() -> OrderId {
    id(900_001)
}

fn locked() -> Coupon {
    issued().lock(id(BUYER), order(), placed_at()).unwrap()
}

fn used() -> Coupon {
    locked().commit(order(), placed_at()).unwrap()
}

fn not_available(status: CouponStatus) -> Result<Coupon, AssetRefusal> {
    Err(AssetRefusal::CouponNotAvailable { status })
}

const NOT_LOCKED: AssetRefusal = AssetRefusal::NotLocked { asset: Asset::Coupon };

#[test]
fn transition_changes_only_status_order_version_and_time() {
    let now = moments()[0];
    let moved = |before: &Coupon, status, order| Coupon {
        status,
        order,
        version: before.version + 1,
        update_time: now,
        ..before.clone()
    };
    let held = Some(order());
    let free = None;
    let lock = issued().lock(id(BUYER), order(), now);
    assert_eq!(lock, Ok(moved(&issued(), CouponStatus::Locked, held)));
    assert_eq!(locked().commit(order(), now), Ok(moved(&locked(), CouponStatus::Used, held)));
    assert_eq!(locked().release(order(), now), Ok(moved(&locked(), CouponStatus::Available, free)));
    assert_eq!(used().return_used(order(), now), Ok(moved(&used(), CouponStatus::Available, free)));
    let late = moments()[1];
    let expired = Coupon { update_time: late, ..moved(&issued(), CouponStatus::Expired, free) };
    assert_eq!(issued().expire(late), Some(expired));
}

#[test]
fn coupon_can_be_locked_until_it_expires() {
    let [before, end, after] = moments();
    assert!(issued().lock(id(BUYER), order(), before).is_ok());
    assert_eq!(issued().expire(before), None);
    for late in [end, after] {
        assert_eq!(issued().status_at(late), CouponStatus::Expired);
        assert_eq!(issued().lock(id(BUYER), order(), late), not_available(CouponStatus::Expired));
        let expired = issued().expire(late).unwrap();
        assert_eq!(expired.expire(late), None, "expires only once");
        // A stored expiry is final, even if a clock is set back.
        assert_eq!(expired.lock(id(BUYER), order(), before), not_available(CouponStatus::Expired));
    }
}

#[test]
fn locked_or_used_coupon_does_not_expire() {
    for late in moments() {
        assert_eq!((locked().expire(late), used().expire(late)), (None, None));
        assert_eq!(locked().commit(order(), late).unwrap().status, CouponStatus::Used);
        // The release or the return makes the coupon available again, but the coupon has expired by then.
        for available in
            [locked().release(order(), late).unwrap(), used().return_used(order(), late).unwrap()]
        {
            assert_eq!(available.status, CouponStatus::Available);
            assert_eq!(
                available.lock(id(BUYER), order(), moments()[1]),
                not_available(CouponStatus::Expired)
            );
        }
    }
}

#[test]
fn locked_or_used_coupon_cannot_be_locked_again() {
    let now = moments()[0];
    for other in [order(), id(900_002)] {
        assert_eq!(locked().lock(id(BUYER), other, now), not_available(CouponStatus::Locked));
        assert_eq!(used().lock(id(BUYER), other, now), not_available(CouponStatus::Used));
    }
}

#[test]
fn coupon_of_another_user_is_rejected_in_every_status() {
    for theirs in [issued(), locked(), used()] {
        for now in moments() {
            assert_eq!(theirs.lock(id(SELLER), order(), now), Err(AssetRefusal::NotYourCoupon));
        }
    }
}

#[test]
fn only_the_order_that_locked_a_coupon_can_commit_release_or_return_it() {
    let now = moments()[0];
    let other = id(900_002);
    assert_eq!(locked().commit(other, now), Err(NOT_LOCKED));
    assert_eq!(locked().release(other, now), Err(NOT_LOCKED));
    assert_eq!(used().return_used(other, now), Err(NOT_LOCKED));
    assert_eq!(NOT_LOCKED.to_string(), "the coupon is not locked for this order");
}

#[test]
fn discount_is_limited_to_the_price_and_requires_the_minimum_spend() {
    let on = |price| issued().discount_on(money(price));
    assert_eq!(on("50.00"), Ok(money("10.00")));
    let below = AssetRefusal::BelowMinimumSpend { min_spend: money("50.00"), price: money("49.99") };
    assert_eq!(on("49.99"), Err(below));
    assert_eq!(coupon("10.00", "0").discount_on(money("9.99")), Ok(money("9.99")));
    assert_eq!(coupon("10.00", "0").discount_on(money("0")), Ok(money("0")));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Lock,
    Commit,
    Release,
    GiveBack,
    Expire,
}

const STEPS: [Step; 5] = [Step::Lock, Step::Commit, Step::Release, Step::GiveBack, Step::Expire];

/// A coupon as plain values.
struct Model {
    status: &'static str,
    order: Option<i64>,
    version: i64,
}

impl Model {
    /// Returns whether the state changed, or the reason of a rejection. An expiry that is not due changes nothing.
    fn step(&mut self, step: Step, is_owner: bool, order: i64, over: bool) -> Result<bool, String> {
        let mine = self.order == Some(order);
        let shown = if self.status == "AVAILABLE" && over { "EXPIRED" } else { self.status };
        let (status, order) = match step {
            Step::Lock if !is_owner => return Err("not yours".into()),
            Step::Lock if shown == "AVAILABLE" => ("LOCKED", Some(order)),
            Step::Lock => return Err(format!("is {shown}")),
            Step::Commit if self.status == "LOCKED" && mine => ("USED", Some(order)),
            Step::Release if self.status == "LOCKED" && mine => ("AVAILABLE", None),
            Step::GiveBack if self.status == "USED" && mine => ("AVAILABLE", None),
            Step::Commit | Step::Release | Step::GiveBack => return Err("not locked".into()),
            Step::Expire if self.status == "AVAILABLE" && over => ("EXPIRED", None),
            Step::Expire => return Ok(false),
        };
        *self = Model { status, order, version: self.version + 1 };
        Ok(true)
    }
}

fn label(refusal: &AssetRefusal) -> String {
    if let AssetRefusal::CouponNotAvailable { status } = refusal {
        return format!("is {status}");
    }
    let labels = [(AssetRefusal::NotYourCoupon, "not yours"), (NOT_LOCKED, "not locked")];
    labels.iter().find(|(known, _)| known == refusal).expect("the refusal must have a label").1.into()
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn coupon_agrees_with_the_model(
        steps in prop::collection::vec(
            (one_of(&STEPS), prop::bool::weighted(0.8), 1..3i64, prop_oneof![4 => -20..0i64, 1 => 0..20i64]),
            0..30,
        ),
    ) {
        let mut coupon = issued();
        let mut model = Model { status: "AVAILABLE", order: None, version: 1 };
        for (step, is_owner, order, seconds) in steps {
            // The clocks of processes differ, so a step can have an earlier time than the step before it.
            let now = issued().expires_at + TimeDelta::seconds(seconds);
            let user = if is_owner { BUYER } else { SELLER };
            let after = match step {
                Step::Lock => coupon.lock(id(user), id(order), now).map(Some),
                Step::Commit => coupon.commit(id(order), now).map(Some),
                Step::Release => coupon.release(id(order), now).map(Some),
                Step::GiveBack => coupon.return_used(id(order), now).map(Some),
                Step::Expire => Ok(coupon.expire(now)),
            };
            let expected = model.step(step, is_owner, order, seconds >= 0);
            let after = after.map_err(|refusal| label(&refusal));
            prop_assert_eq!(after.as_ref().map(Option::is_some), expected.as_ref().copied(), "{:?}", step);
            if let Ok(Some(after)) = after {
                prop_assert_eq!(after.update_time, now);
                coupon = after;
            }
            prop_assert_eq!(coupon.status.as_str(), model.status);
            prop_assert_eq!(coupon.order.map(OrderId::get), model.order);
            prop_assert_eq!(coupon.version, model.version);
            let unchanged = Coupon {
                status: coupon.status,
                order: coupon.order,
                version: coupon.version,
                update_time: coupon.update_time,
                ..issued()
            };
            prop_assert_eq!(&coupon, &unchanged);
        }
    }
}
