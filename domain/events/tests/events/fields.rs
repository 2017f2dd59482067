//! Fields of a JSON object, and texts and times entered by users.

use chrono::NaiveDate;
use handover_events::{EnvelopeError, Fields, Json, TextError, TimeError, parse_time};

fn read<T>(
    value: &Json,
    read: impl FnOnce(&Fields<'_>) -> Result<T, EnvelopeError>,
) -> Result<T, EnvelopeError> {
    read(&Fields::of(value, "payload.").unwrap())
}

#[test]
fn field_is_present_unless_absent_or_null() {
    let value = Json::parse(r#"{"present":1,"null":null}"#).unwrap();
    let fields = Fields::of(&value, "payload.").unwrap();
    assert_eq!(["present", "null", "absent"].map(|name| fields.has(name)), [true, false, false]);
}

#[test]
fn optional_field_is_none_if_absent_or_null_and_an_error_if_of_another_type() {
    let value = Json::parse(r#"{"number":1,"null":null}"#).unwrap();
    assert_eq!(read(&value, |fields| fields.optional("number", Fields::integer)), Ok(Some(1)));
    for name in ["null", "absent"] {
        assert_eq!(read(&value, |fields| fields.optional(name, Fields::integer)), Ok(None), "{name}");
    }
    assert!(
        read(&value, |fields| fields.optional("number", |fields, name| fields.text(name).map(str::to_owned)))
            .is_err()
    );
}

#[test]
fn date_is_read_in_one_format_only() {
    let day =
        |text: &str| read(&Json::object(vec![("day".to_owned(), text.into())]), |fields| fields.day("day"));
    assert_eq!(day("2026-02-04"), Ok(NaiveDate::from_ymd_opt(2026, 2, 4).unwrap()));
    for text in
        ["26-2-4", "2026-2-4", "2026-02-30", "+12026-02-04", "-0001-01-01", "2026-02-04T00:00:00Z", ""]
    {
        assert!(day(text).is_err(), "{text}");
    }
}

#[test]
fn text_has_1_to_max_characters_without_control_characters() {
    for text in ["a", "车车车", "a b"] {
        assert_eq!(TextError::check(text, 3), Ok(()), "{text}");
    }
    for text in ["", " ", "abcd", "a\n", "\u{7f}b"] {
        assert_eq!(TextError::check(text, 3), Err(TextError { max: 3 }), "{text:?}");
    }
}

#[test]
fn time_is_rfc3339_in_the_years_1_to_9999_in_utc() {
    for text in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59+00:01"] {
        assert!(parse_time(text).is_ok(), "{text}");
    }
    for text in ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"] {
        assert_eq!(parse_time(text), Err(TimeError::OutOfRange), "{text}");
    }
    for text in ["", "2026-02-04", "10000-01-01T00:00:00Z", "-001-01-01T00:00:00Z"] {
        assert_eq!(parse_time(text), Err(TimeError::Format), "{text}");
    }
}
