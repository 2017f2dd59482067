//! Parsing and serializing the envelope, whose format is frozen.

use handover_events::{Envelope, EnvelopeError, EventId, Json};
use proptest::prelude::*;
use serde_json::Value;

use crate::{at, times};

/// An envelope with the fields of the contract, pretty-printed, plus a final newline.
const GOLDEN: &str = include_str!("../golden/envelope.json");

/// Each field in the order of the contract, with invalid values.
const FIELDS: [(&str, &[&str]); 7] = [
    ("eventId", &["5", r#""""#, r#""a b""#, r#""灯""#, "[]", "{}", "true"]),
    ("eventType", &["5", "[]", "{}", "false"]),
    ("aggregateType", &["5", "[]", "{}", "false"]),
    // A string is a text key.
    (
        "aggregateId",
        &[
            r#""""#,
            r#"" 900001""#,
            r#""a\u0000""#,
            "1.5",
            "900001.0",
            "9e5",
            "9223372036854775808",
            "[]",
            "true",
        ],
    ),
    (
        "occurredAt",
        &[
            "1770201000",
            r#""yesterday""#,
            r#""2026-02-04""#,
            r#""2026-02-04T10:30:00""#,
            r#""2026-02-30T10:30:00Z""#,
            r#""2026-02-04T24:00:00Z""#,
            // In UTC the next two times are outside the years 0000 to 9999, so they could not be written as RFC 3339.
            r#""9999-12-31T23:59:59-00:01""#,
            r#""0000-01-01T00:00:00+00:01""#,
            "{}",
        ],
    ),
    ("traceId", &["5", "[]", "{}", "false"]),
    ("payload", &["5", r#""text""#, "[]", "true"]),
];

fn golden() -> Vec<(String, Json)> {
    match Json::parse(GOLDEN) {
        Ok(Json::Object(fields)) => fields,
        other => panic!("the golden file is an object: {other:?}"),
    }
}

/// The golden envelope with another value in a field.
fn golden_with(name: &str, value: Json) -> Vec<(String, Json)> {
    let mut fields = golden();
    fields.iter_mut().filter(|field| field.0 == name).for_each(|field| field.1 = value.clone());
    fields
}

fn parse(fields: Vec<(String, Json)>) -> Result<Envelope, EnvelopeError> {
    Envelope::parse(&Json::Object(fields).to_string())
}

#[test]
fn contract_example_round_trips_byte_for_byte() {
    let envelope = Envelope::parse(GOLDEN).unwrap();
    assert_eq!(serde_json::to_string_pretty(&envelope).unwrap() + "\n", GOLDEN);
}

#[test]
fn contract_example_is_parsed_into_all_fields() {
    let expected = Envelope {
        event_id: "uuid".parse().unwrap(),
        event_type: "BOOK_LENT".into(),
        aggregate_type: "Book".into(),
        aggregate_id: 900_001.into(),
        occurred_at: at("2026-02-04T10:30:00Z"),
        trace_id: "trace-xxx".into(),
        payload: Json::Object(golden()).get("payload").unwrap().clone(),
    };
    assert_eq!(Envelope::parse(GOLDEN), Ok(expected.clone()));
    assert_eq!(serde_json::from_str::<Envelope>(GOLDEN).unwrap(), expected);
    // A value keeps what the enabled features of serde_json keep of the text.
    let value: Value = serde_json::from_str(GOLDEN).unwrap();
    assert_eq!(Envelope::parse(&value.to_string()), Ok(serde_json::from_value(value).unwrap()));
}

#[test]
fn to_json_writes_one_line_with_fields_in_contract_order() {
    let json = Envelope::parse(GOLDEN).unwrap().to_json();
    assert!(!json.contains('\n'));
    let Json::Object(written) = Json::parse(&json).unwrap() else { panic!("not an object: {json}") };
    assert!(written.iter().map(|field| field.0.as_str()).eq(FIELDS.iter().map(|field| field.0)), "{json}");
}

#[test]
fn missing_required_field_is_named_in_the_error() {
    for (field, _) in FIELDS {
        let error = EnvelopeError::Missing { field: field.into() };
        let mut absent = golden();
        absent.retain(|(name, _)| name != field);
        assert_eq!(parse(absent), Err(error.clone()), "{field} absent");
        assert_eq!(parse(golden_with(field, Json::Null)), Err(error.clone()), "{field} null");
        assert_eq!(error.to_string(), format!("required field `{field}` is missing"));
    }
}

#[test]
fn field_of_wrong_type_is_named_in_the_error() {
    for (field, wrong_values) in FIELDS {
        for wrong in wrong_values {
            let error = parse(golden_with(field, Json::parse(wrong).unwrap())).unwrap_err();
            let by_name = matches!(&error, EnvelopeError::WrongType { field: named, .. } if named == field);
            assert!(by_name, "{field} = {wrong}: {error}");
            assert!(error.to_string().starts_with(&format!("field `{field}` must be ")), "{error}");
        }
    }
}

#[test]
fn unknown_fields_are_ignored_at_any_position() {
    let expected = parse(golden());
    for extra in ["1", r#""x""#, "null", r#"{"eventId":5}"#, "[{}]"] {
        let extra = ("later".to_owned(), Json::parse(extra).unwrap());
        let mut after = golden();
        after.push(extra.clone());
        assert_eq!(parse(after), expected);
        let mut before = golden();
        before.insert(0, extra);
        assert_eq!(parse(before), expected);
    }
}

#[test]
fn text_that_is_not_a_json_object_is_rejected() {
    let deep = "[".repeat(100_000);
    let truncated = &GOLDEN[..GOLDEN.len() - 4];
    for text in ["", " ", "null", "5", "true", r#""text""#, "[]", "{", "{]", "order", truncated, &deep] {
        assert!(matches!(Envelope::parse(text), Err(EnvelopeError::NotAnObject { .. })), "{text:.40}");
    }
    let twice = format!("{GOLDEN}{GOLDEN}");
    assert!(matches!(Envelope::parse(&twice), Err(EnvelopeError::NotAnObject { .. })));
}

#[test]
fn time_is_converted_to_utc_and_truncated_to_microseconds() {
    for (given, written) in [
        ("2026-02-04T18:30:00+08:00", "2026-02-04T10:30:00.000000Z"),
        ("2026-02-04T10:30:00.000Z", "2026-02-04T10:30:00.000000Z"),
        ("2026-02-04T10:30:00.25-00:30", "2026-02-04T11:00:00.250000Z"),
        ("2026-02-04T10:30:00.000001Z", "2026-02-04T10:30:00.000001Z"),
        ("2026-02-04T10:30:00.000088888Z", "2026-02-04T10:30:00.000088Z"),
    ] {
        let envelope = parse(golden_with("occurredAt", given.into())).unwrap();
        assert_eq!(envelope.occurred_at, at(written));
        assert!(envelope.to_json().contains(&format!(r#""occurredAt":"{written}""#)), "{given}");
    }
}

#[test]
fn unknown_event_type_is_preserved() {
    for name in ["BOOK_EXPLODED", "book_lent", "BOOK_LENT ", ""] {
        let envelope = parse(golden_with("eventType", name.into())).unwrap();
        assert_eq!(envelope.event_type, name);
    }
}

pub(crate) fn json_values() -> impl Strategy<Value = Json> {
    let number =
        prop_oneof![any::<i64>().prop_map(|n| n.to_string()), "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?"]
            .prop_map(|text| Json::parse(&text).expect("a JSON number"));
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number,
        any::<String>().prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            prop::collection::vec((any::<String>(), inner), 0..5).prop_map(Json::object),
        ]
    })
}

prop_compose! {
    fn envelopes()(
        event_id in "[!-~]{1,64}",
        event_type: String,
        aggregate_type: String,
        aggregate_id: i64,
        occurred_at in times(),
        trace_id: String,
        payload in prop::collection::vec((any::<String>(), json_values()), 0..6),
    ) -> Envelope {
        let payload = Json::object(payload);
        let event_id: EventId = event_id.parse().expect("visible ASCII");
        Envelope { event_id, event_type, aggregate_type, aggregate_id: aggregate_id.into(), occurred_at, trace_id, payload }
    }
}

proptest! {
    #[test]
    fn envelope_round_trips_through_json(envelope in envelopes()) {
        prop_assert_eq!(Envelope::parse(&envelope.to_json()), Ok(envelope.clone()));
        let pretty = serde_json::to_string_pretty(&envelope).unwrap();
        prop_assert_eq!(Envelope::parse(&pretty), Ok(envelope.clone()));
        prop_assert_eq!(Envelope::parse(&pretty).unwrap().to_json(), envelope.to_json());
        prop_assert_eq!(serde_json::from_str::<Envelope>(&envelope.to_json()).unwrap(), envelope);
    }

    #[test]
    fn payload_numbers_keep_all_digits(number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?") {
        let text = format!(
            concat!(
                r#"{{"eventId":"e","eventType":"T","aggregateType":"A","aggregateId":1,"#,
                r#""occurredAt":"2026-02-04T10:30:00.000000Z","traceId":"t","payload":{{"n":{number}}}}}"#
            ),
            number = number
        );
        prop_assert_eq!(Envelope::parse(&text).unwrap().to_json(), text);
    }

    #[test]
    fn parse_never_panics(text: String) {
        let _ = Envelope::parse(&text);
    }
}
