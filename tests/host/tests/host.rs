//! A program that uses the toolkit reads and writes JSON of its own exactly as without the toolkit.
//!
//! The features `arbitrary_precision` and `preserve_order` of `serde_json` would change each result here, in every crate of
//! a program, as soon as one crate enables them.

#![allow(clippy::unwrap_used, reason = "a failed precondition ends the test")]

use handover_events::Envelope;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Measure {
    Number(f64),
    Text(String),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type")]
enum Reading {
    Temperature { celsius: f64 },
}

#[derive(Debug, Deserialize, PartialEq)]
struct Device {
    name: String,
    #[serde(flatten)]
    size: Size,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Size {
    weight: f64,
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn floating_point_number_is_read_in_untagged_tagged_and_flattened_types() {
    assert_eq!(serde_json::from_str::<Measure>("36.6").unwrap(), Measure::Number(36.6));
    assert_eq!(serde_json::from_value::<Measure>(json!(36.6)).unwrap(), Measure::Number(36.6));
    assert_eq!(serde_json::from_str::<Measure>(r#""36.6""#).unwrap(), Measure::Text("36.6".to_owned()));
    let reading: Reading = serde_json::from_str(r#"{"type":"Temperature","celsius":36.6}"#).unwrap();
    assert_eq!(reading, Reading::Temperature { celsius: 36.6 });
    let device: Device = serde_json::from_str(r#"{"name":"a","weight":1.5}"#).unwrap();
    assert_eq!(device, Device { name: "a".to_owned(), size: Size { weight: 1.5 } });
}

#[test]
fn numbers_are_compared_and_limited_by_value() {
    assert_eq!(value("1.0"), value("1.00"));
    assert_eq!(value("1.10").to_string(), "1.1");
    assert!(serde_json::from_str::<Value>("1e400").is_err());
}

#[test]
fn fields_are_written_by_name() {
    let mut object = json!({"b": 1, "a": 2, "c": 3});
    assert_eq!(object.to_string(), r#"{"a":2,"b":1,"c":3}"#);
    object.as_object_mut().unwrap().remove("a");
    assert_eq!(object.to_string(), r#"{"b":1,"c":3}"#);
    assert_eq!(size_of::<Value>(), 32);
}

#[test]
fn envelope_in_the_same_program_keeps_order_and_digits() {
    let text = concat!(
        r#"{"eventId":"e","eventType":"T","aggregateType":"A","aggregateId":1,"#,
        r#""occurredAt":"2026-02-04T10:30:00.000000Z","traceId":"t","payload":{"b":1.00,"a":1e+400}}"#
    );
    assert_eq!(Envelope::parse(text).unwrap().to_json(), text);
}
