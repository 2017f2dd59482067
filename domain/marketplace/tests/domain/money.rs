//! Money is exact: parsed completely or rejected, never rounded.

use handover_events::MAX_ID;
use marketplace_domain::{Currency, Money, MoneyError};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::amounts;

const LARGEST: &str = "90071992547409.91";

#[test]
fn small_amount_round_trips_with_two_decimals() {
    for minor in 0..=20_000 {
        let amount = Money::from_minor(minor).unwrap();
        let text = amount.to_string();
        let (whole, cents) = text.split_once('.').unwrap();
        assert_eq!(cents.len(), 2, "{text}");
        assert_eq!(format!("{whole}{cents}").parse::<i64>().unwrap(), minor, "{text}");
        assert_eq!(Money::parse(&text), Ok(amount));
    }
}

#[test]
fn plain_decimal_is_parsed_as_minor_units() {
    let legal = [
        ("0", 0),
        ("0.0", 0),
        ("0.00", 0),
        ("0.01", 1),
        ("0.1", 10),
        ("0.10", 10),
        ("1", 100),
        ("88.5", 8_850),
        ("88.50", 8_850),
        // 4.35 and 1.15 have no exact binary representation; 4.35 * 100 is 434.99... in binary floating point.
        ("4.35", 435),
        ("1.15", 115),
        ("9999999.99", 999_999_999),
        (LARGEST, MAX_ID),
    ];
    for (text, minor) in legal {
        assert_eq!(Money::parse(text).map(Money::minor), Ok(minor), "{text}");
        assert_eq!(text.parse::<Money>().map(Money::minor), Ok(minor), "{text}");
    }
}

#[test]
fn more_than_two_decimals_are_rejected_even_if_they_are_zeros() {
    for text in ["1.000", "0.000", "88.500", "88.505", "0.001", "0.0000000000000000000001"] {
        assert_eq!(Money::parse(text), Err(MoneyError::TooPrecise), "{text}");
    }
}

#[test]
fn amount_out_of_range_is_rejected() {
    let huge = format!("1{}", "0".repeat(400));
    for text in ["90071992547409.92", "90071992547410", "9223372036854775807", "9223372036854775808", &huge] {
        assert_eq!(Money::parse(text), Err(MoneyError::OutOfRange), "{text}");
    }
    for text in ["-1", "-0.01", "-88.50", "-0"] {
        assert_eq!(Money::parse(text), Err(MoneyError::OutOfRange), "{text}");
    }
    for minor in [i64::MIN, -1, 1 << 53, i64::MAX] {
        assert_eq!(Money::from_minor(minor), Err(MoneyError::OutOfRange), "{minor}");
    }
    assert_eq!(Money::from_minor(MAX_ID).unwrap().to_string(), LARGEST);
    assert_eq!(Money::from_minor(0), Ok(Money::ZERO));
}

#[test]
fn text_that_is_not_a_plain_decimal_is_rejected() {
    let illegal = [
        "",
        " ",
        ".",
        "1.",
        ".5",
        "1..5",
        "1.2.3",
        "1,50",
        "1 000",
        " 1",
        "1 ",
        "+1",
        "--1",
        "-",
        "1-",
        "1e2",
        "1E2",
        "1e-2",
        "8.85e1",
        "0x10",
        "1_000",
        "NaN",
        "nan",
        "inf",
        "Infinity",
        "-Infinity",
        "¥1",
        "1.5元",
        "１",
        "٣",
    ];
    for text in illegal {
        assert_eq!(Money::parse(text), Err(MoneyError::NotDecimal), "{text:?}");
    }
}

#[test]
fn amount_in_json_is_a_number_with_two_decimals() {
    for (given, written) in
        [("88.50", "88.50"), ("88.5", "88.50"), ("88", "88.00"), ("0", "0.00"), (LARGEST, LARGEST)]
    {
        let amount: Money = serde_json::from_str(given).unwrap();
        assert_eq!(serde_json::to_string(&amount).unwrap(), written);
        let value: Value = serde_json::from_str(given).unwrap();
        assert_eq!(serde_json::from_value::<Money>(value).unwrap(), amount, "a JSON value as an amount");
        assert_eq!(serde_json::to_value(amount).unwrap().to_string(), written, "an amount as a JSON value");
    }
}

#[test]
fn json_value_that_is_not_a_plain_number_is_rejected() {
    let illegal = [
        r#""88.50""#,
        r#""""#,
        "1e2",
        "1E2",
        "1e-2",
        "8.85e1",
        "1.000",
        "88.505",
        "-1",
        "90071992547409.92",
        "NaN",
        "Infinity",
        "null",
        "true",
        "[88.50]",
        r#"{"amount":88.50}"#,
    ];
    for text in illegal {
        assert!(serde_json::from_str::<Money>(text).is_err(), "{text}");
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            assert!(serde_json::from_value::<Money>(value).is_err(), "{text} as a JSON value");
        }
    }
}

#[test]
fn currency_is_serialized_as_its_code() {
    assert_eq!(Currency::CNY.as_str(), "CNY");
    assert_eq!(serde_json::to_string(&Currency::CNY).unwrap(), r#""CNY""#);
    assert!(serde_json::from_str::<Currency>(r#""USD""#).is_err());
}

proptest! {
    #[test]
    fn amount_round_trips_through_text_and_json(amount in amounts()) {
        prop_assert_eq!(Money::parse(&amount.to_string()), Ok(amount));
        let json = serde_json::to_string(&amount).unwrap();
        prop_assert_eq!(&json, &amount.to_string());
        prop_assert_eq!(serde_json::from_str::<Money>(&json).unwrap(), amount);
    }

    #[test]
    fn amounts_are_ordered_by_minor_units(left in amounts(), right in amounts()) {
        prop_assert_eq!(left.cmp(&right), left.minor().cmp(&right.minor()));
    }

    #[test]
    fn decimal_is_parsed_exactly_or_rejected(whole in 0..=u64::MAX, fraction in "[0-9]{1,20}") {
        let read = Money::parse(&format!("{whole}.{fraction}"));
        if fraction.len() > 2 {
            prop_assert_eq!(read, Err(MoneyError::TooPrecise));
        } else {
            let scale = if fraction.len() == 1 { 10 } else { 1 };
            let minor = i128::from(whole) * 100 + fraction.parse::<i128>().unwrap() * scale;
            let expected = i64::try_from(minor).map_err(|_| MoneyError::OutOfRange).and_then(Money::from_minor);
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn any_text_is_parsed_as_its_exact_amount_or_rejected(text in "[-+]?[0-9]{0,18}[.,eE]?[0-9]{0,3}") {
        if let Ok(amount) = Money::parse(&text) {
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let plain = format!("{whole}{fraction:0<2}");
            prop_assert_eq!(plain.parse::<i64>().unwrap(), amount.minor(), "{}", text);
        }
    }

    #[test]
    fn parse_never_panics(text in any::<String>()) {
        let _ = Money::parse(&text);
        let _ = serde_json::from_str::<Money>(&text);
    }
}
