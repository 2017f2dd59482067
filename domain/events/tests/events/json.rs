//! JSON values that keep the order of fields and the digits of numbers, whatever features of `serde_json` are enabled.

use handover_events::Json;
use proptest::prelude::*;
use serde_json::Value;

use crate::envelope::json_values;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Every text here is written as it was read.
const UNCHANGED: [&str; 14] = [
    "null",
    "true",
    "0",
    "-0",
    "1.10",
    "1.00",
    "88.50",
    "1e+400",
    "2.5e-3",
    "123456789012345678901234567890.123456789012345678901234567890",
    r#""a\"b\\c\n""#,
    r#"{"b":1,"a":2,"":[{"z":{},"y":[]}]}"#,
    "[]",
    "{}",
];

#[test]
fn text_keeps_order_of_fields_and_digits() {
    for text in UNCHANGED {
        assert_eq!(json(text).to_string(), text);
        assert_eq!(serde_json::to_string(&json(text)).unwrap(), text);
        assert_eq!(serde_json::from_str::<Json>(text).unwrap(), json(text));
    }
}

#[test]
fn text_typed_by_hand_becomes_one_line_without_redundant_escapes() {
    for (typed, written) in [
        (" { \"b\" : 1.50 ,\r\n\t\"a\" : [ 1 , 2 ] } \n", r#"{"b":1.50,"a":[1,2]}"#),
        (r#""\u4e2d\/\u0041""#, r#""中/A""#),
        ("1E5", "1e+5"),
        ("1e-5", "1e-5"),
    ] {
        assert_eq!(json(typed).to_string(), written);
    }
}

#[test]
fn repeated_field_keeps_its_first_position_and_last_value() {
    assert_eq!(json(r#"{"a":1,"b":2,"a":{"c":1,"c":2}}"#).to_string(), r#"{"a":{"c":2},"b":2}"#);
}

#[test]
fn objects_are_equal_in_any_order_and_numbers_only_by_text() {
    assert_eq!(json(r#"{"a":[{"x":1,"y":2}],"b":2}"#), json(r#"{"b":2,"a":[{"y":2,"x":1}]}"#));
    for (one, other) in
        [("1.0", "1.00"), ("1", "1.0"), ("[1,2]", "[2,1]"), (r#"{"a":1}"#, r#"{"a":1,"b":1}"#), ("0", "-0")]
    {
        assert_ne!(json(one), json(other));
    }
}

#[test]
fn fields_and_values_are_read_by_type() {
    let object = json(r#"{"n":7,"f":7.0,"e":7e0,"s":"7","big":9223372036854775808}"#);
    assert_eq!(object.get("n").and_then(Json::as_i64), Some(7));
    for name in ["f", "e", "s", "big"] {
        assert_eq!(object.get(name).and_then(Json::as_i64), None, "{name}");
    }
    assert_eq!(object.get("s").and_then(Json::as_str), Some("7"));
    assert_eq!((object.get("absent"), json("[1]").get("n")), (None, None));
}

#[test]
fn text_that_is_not_json_is_rejected() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert!(Json::parse(&deep(127)).is_ok());
    let too_deep = [deep(128), "[".repeat(100_000)];
    let invalid =
        ["", " ", "{", "[1,]", "{\"a\":1,}", "01", "+1", "1.", ".5", "'a'", "NaN", "1 2", r#""\ud800""#];
    for text in invalid.into_iter().chain(too_deep.iter().map(String::as_str)) {
        assert!(Json::parse(text).is_err(), "{text:.40}");
    }
}

proptest! {
    #[test]
    fn json_round_trips_through_text_and_through_value(json in json_values()) {
        prop_assert_eq!(Json::parse(&json.to_string()).unwrap(), json.clone());
        let pretty = serde_json::to_string_pretty(&json).unwrap();
        prop_assert_eq!(Json::parse(&pretty).unwrap().to_string(), json.to_string());
        // A value without the features changes numbers, but is the same for the same text.
        let parsed: Value = serde_json::from_str(&json.to_string()).unwrap();
        prop_assert_eq!(serde_json::to_value(&json).unwrap(), parsed);
    }
}
