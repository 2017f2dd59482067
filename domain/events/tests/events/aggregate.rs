//! Ids of aggregates: integers and text keys.

use handover_events::{AggregateId, AggregateIdError, EventKey as _, Json, MAX_AGGREGATE_KEY_BYTES};
use proptest::prelude::*;
use uuid::Uuid;

fn text(key: &str) -> AggregateId {
    AggregateId::text(key).unwrap()
}

/// Rows contain these numbers: partitions, order and sequences of an aggregate depend on them.
#[test]
fn number_of_a_text_key_never_changes() {
    let golden = [
        ("a", -3_848_465_438_864_589_366),
        ("order-1", -8_381_231_748_694_775_412),
        ("7f0c3a52-6b1e-4d0a-9c57-2f9d0f6f3f10", -6_639_645_902_946_717_845),
        ("书", -7_212_117_943_337_612_951),
        ("5", -1_212_292_392_796_056_533),
    ];
    for (key, number) in golden {
        assert_eq!((text(key).number(), text(key).key()), (number, Some(key)));
    }
}

#[test]
fn integer_is_its_own_number() {
    for number in [i64::MIN, -1, 0, 1, i64::MAX] {
        let id = AggregateId::from(number);
        assert_eq!((id.number(), id.key(), id == number), (number, None, true));
    }
    assert_eq!(AggregateId::from(7_i32), AggregateId::from(7_u32));
}

#[test]
fn uuid_is_its_text_with_hyphens_in_lower_case() {
    let id: Uuid = "7F0C3A526B1E4D0A9C572F9D0F6F3F10".parse().unwrap();
    assert_eq!(AggregateId::from(id), text("7f0c3a52-6b1e-4d0a-9c57-2f9d0f6f3f10"));
    assert_eq!(id.aggregate_id(), Ok(AggregateId::from(id)));
}

#[test]
fn text_key_that_a_store_or_header_cannot_hold_is_refused() {
    let longest = "书".repeat(MAX_AGGREGATE_KEY_BYTES / 3);
    assert_eq!((longest.len(), text(&longest).key()), (255, Some(longest.as_str())));
    for key in ["", " ", " a", "a ", "\u{a0}a", "a\0", "a\nb", "\u{85}", &format!("{longest}a")] {
        assert_eq!(AggregateId::text(key), Err(AggregateIdError::Invalid), "{key:?}");
        assert_eq!(key.to_owned().aggregate_id(), Err(AggregateIdError::Invalid), "{key:?}");
    }
    assert_eq!(text("a b").to_string(), "a b");
}

#[test]
fn type_decides_between_integer_and_text_key() {
    assert_ne!(text("5"), AggregateId::from(5_i64));
    assert_eq!((text("5").to_string(), AggregateId::from(5_i64).to_string()), ("5".into(), "5".into()));
    let json = |id: &AggregateId| serde_json::to_string(id).unwrap();
    assert_eq!((json(&text("5")).as_str(), json(&AggregateId::from(5_i64)).as_str()), ("\"5\"", "5"));
    for id in [text("5"), AggregateId::from(5_i64), AggregateId::from(i64::MIN)] {
        assert_eq!(serde_json::from_str::<AggregateId>(&json(&id)).unwrap(), id);
        assert_eq!(AggregateId::from_json(&Json::from(&id)), Ok(id));
    }
    for invalid in ["1.5", "9e5", "9223372036854775808", "null", "true", "[]", r#""""#, r#"" a""#] {
        assert!(serde_json::from_str::<AggregateId>(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn stored_key_without_its_number_is_refused() {
    assert_eq!(AggregateId::stored(5, None), Ok(5_i64.into()));
    assert_eq!(AggregateId::stored(text("a").number(), Some("a")), Ok(text("a")));
    assert_eq!(AggregateId::stored(text("a").number(), None), Ok(text("a").number().into()));
    assert_eq!(AggregateId::stored(5, Some("a")), Err(AggregateIdError::NotItsHash));
    assert_eq!(AggregateId::stored(text("a").number(), Some(" ")), Err(AggregateIdError::Invalid));
}

#[test]
fn id_written_by_a_person_is_an_integer_if_it_looks_like_one_and_is_not_quoted() {
    let parsed = [
        ("5", AggregateId::from(5_i64)),
        ("-5", AggregateId::from(-5_i64)),
        ("-9223372036854775808", i64::MIN.into()),
        (r#""5""#, text("5")),
        (r#""\"5\"""#, text(r#""5""#)),
        ("order-1", text("order-1")),
        ("1.5", text("1.5")),
        ("\"", text("\"")),
    ];
    for (written, id) in parsed {
        assert_eq!(AggregateId::parse(written), Ok(id), "{written}");
    }
    for invalid in ["", "+5", "05", "-0", "9223372036854775808", r#""""#, r#""a"b""#, " 5"] {
        assert_eq!(AggregateId::parse(invalid), Err(AggregateIdError::Invalid), "{invalid:?}");
    }
}

proptest! {
    #[test]
    fn text_key_has_a_negative_number_and_is_read_as_it_was_written(key in "[!-~书é]{1,60}") {
        let id = text(&key);
        prop_assert!(id.number() < 0);
        prop_assert_eq!(AggregateId::stored(id.number(), Some(&key)), Ok(id.clone()));
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<AggregateId>(&json).unwrap(), id);
    }
}
