//! Value of points and earning rate: whole numbers at every rate.

use handover_events::MAX_ID;
use marketplace_domain::{Asset, AssetRefusal, Money, Points, PointsRules};
use proptest::prelude::*;

use crate::common::{amounts, money, points, rules};

fn worth(rate: u32, number: i64) -> Result<String, AssetRefusal> {
    rules(rate, 1).worth(points(number)).map(|money| money.to_string())
}

#[test]
fn by_default_100_points_are_worth_1_cny_and_1_point_is_earned_per_cny_paid() {
    assert_eq!(PointsRules::default(), rules(100, 1));
    assert_eq!(points(100).to_string(), "100");
}

#[test]
fn value_of_points_is_exact_at_every_rate() {
    for (rate, number, value) in [
        (50, 0, "0.00"),
        (50, 1, "0.02"),
        (50, 49, "0.98"),
        (50, 50, "1.00"),
        (50, 51, "1.02"),
        (100, 0, "0.00"),
        (100, 1, "0.01"),
        (100, 99, "0.99"),
        (100, 100, "1.00"),
        (100, MAX_ID, "90071992547409.91"),
        (1000, 0, "0.00"),
        (1000, 10, "0.01"),
        (1000, 990, "0.99"),
        (1000, 1000, "1.00"),
        (1, 1, "1.00"),
        (3, 3, "1.00"),
        (30, 3, "0.10"),
        (u32::MAX, 0, "0.00"),
    ] {
        assert_eq!(worth(rate, number), Ok(value.into()), "{number} points at {rate} points per 1.00");
    }
}

#[test]
fn points_worth_a_fraction_of_a_cent_are_rejected_with_the_required_multiple() {
    for (rate, number, step) in [(1000, 1, 10), (1000, 995, 10), (3, 1, 3), (30, 100, 3), (101, 100, 101)] {
        assert_eq!(
            worth(rate, number),
            Err(AssetRefusal::PointsNotWhole { step }),
            "{number} points at {rate} points per 1.00"
        );
        assert!(worth(rate, step).is_ok(), "{step} points at {rate} points per 1.00");
    }
    assert_eq!(worth(1000, 15).unwrap_err().to_string(), "points must be a multiple of 10");
}

#[test]
fn points_worth_more_than_the_maximum_amount_are_rejected() {
    assert_eq!(worth(50, MAX_ID / 2), Ok("90071992547409.90".into()));
    for (rate, number) in [(50, MAX_ID / 2 + 1), (50, MAX_ID), (1, MAX_ID)] {
        assert_eq!(worth(rate, number), Err(AssetRefusal::TooMuch { asset: Asset::Points }));
    }
}

#[test]
fn points_are_earned_for_each_whole_cny_paid() {
    for (each, paid, earned) in [
        (1, "0.00", 0),
        (1, "0.99", 0),
        (1, "1.00", 1),
        (1, "88.50", 88),
        (1, "88.99", 88),
        (50, "88.50", 4_400),
        (100, "88.50", 8_800),
        (1000, "88.50", 88_000),
        (0, "88.50", 0),
        (1, "90071992547409.91", 90_071_992_547_409),
        (u32::MAX, "90071992547409.91", MAX_ID),
    ] {
        assert_eq!(rules(100, each).earned(money(paid)), points(earned), "{paid} at {each} points per 1.00");
    }
}

#[test]
fn number_of_points_is_between_0_and_the_largest_exact_json_integer() {
    for value in [0, 1, MAX_ID] {
        assert_eq!(Points::try_from(value).map(i64::from), Ok(value));
        assert_eq!(serde_json::from_str::<Points>(&value.to_string()).unwrap(), points(value));
        assert_eq!(serde_json::to_string(&points(value)).unwrap(), value.to_string());
    }
    for value in [i64::MIN, -1, MAX_ID + 1, i64::MAX] {
        assert!(Points::try_from(value).is_err(), "{value}");
        assert!(serde_json::from_str::<Points>(&value.to_string()).is_err(), "{value}");
    }
}

proptest! {
    #[test]
    fn value_of_points_is_exact_or_rejected(number in 0..=MAX_ID, rate in 1..=u32::MAX) {
        let exact = i128::from(number) * 100;
        let rate_wide = i128::from(rate);
        match rules(rate, 1).worth(points(number)) {
            Ok(money) => prop_assert_eq!(i128::from(money.minor()) * rate_wide, exact),
            Err(AssetRefusal::PointsNotWhole { step }) => {
                let step = i128::from(step);
                prop_assert_ne!(exact % rate_wide, 0);
                prop_assert_eq!(step * 100 % rate_wide, 0);
                prop_assert_ne!(i128::from(number) % step, 0, "a multiple of {} was rejected", step);
            }
            Err(AssetRefusal::TooMuch { .. }) => prop_assert!(exact / rate_wide > i128::from(MAX_ID)),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn higher_payment_never_earns_fewer_points(paid in amounts(), more in amounts(), each in any::<u32>()) {
        let lower = paid.min(more);
        let higher = paid.max(more);
        prop_assert!(rules(100, each).earned(lower) <= rules(100, each).earned(higher));
        prop_assert_eq!(rules(100, each).earned(Money::ZERO), Points::ZERO);
    }
}
