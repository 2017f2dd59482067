//! The largest id, the default tenant, and event ids.

use handover_events::{EventId, IdError, MAX_ID, TenantId};
use proptest::prelude::*;
use uuid::Uuid;

pub(super) fn tenant(id: i64) -> TenantId {
    id.try_into().expect("an id in range")
}

pub(super) fn tenants() -> impl Strategy<Value = TenantId> {
    prop_oneof![1..=1000i64, 1..=MAX_ID, Just(MAX_ID)].prop_map(tenant)
}

#[test]
fn max_id_is_the_largest_safe_integer_of_a_double() {
    assert_eq!(MAX_ID, 9_007_199_254_740_991);
}

#[test]
fn default_tenant_is_1() {
    assert_eq!(TenantId::DEFAULT.get(), 1);
}

#[test]
fn event_id_has_1_to_64_characters() {
    for length in 1..=64 {
        let text = "a".repeat(length);
        assert_eq!(text.parse::<EventId>().unwrap().as_str(), text);
    }
    for length in [0, 65, 66, 1000] {
        assert_eq!("a".repeat(length).parse::<EventId>(), Err(IdError::NotAnEventId), "{length} characters");
    }
}

#[test]
fn event_id_accepts_only_visible_ascii() {
    for character in (0..=255u8).map(char::from) {
        let visible = ('!'..='~').contains(&character);
        assert_eq!(format!("a{character}b").parse::<EventId>().is_ok(), visible, "{character:?}");
    }
    for text in ["a b", " a", "a\n", "灯", "é", "a\u{200b}"] {
        assert_eq!(text.parse::<EventId>(), Err(IdError::NotAnEventId), "{text:?}");
        let json = serde_json::to_string(text).unwrap();
        assert!(serde_json::from_str::<EventId>(&json).is_err(), "{json}");
    }
}

#[test]
fn event_ids_are_case_sensitive() {
    assert_ne!("Key-a".parse::<EventId>(), "key-a".parse::<EventId>());
}

proptest! {
    #[test]
    fn event_id_from_uuid_is_hyphenated_lowercase(bits in any::<u128>()) {
        let uuid = Uuid::from_u128(bits);
        let id = EventId::from(uuid);
        prop_assert_eq!(id.as_str(), uuid.to_string());
        prop_assert_eq!(id.as_str().parse::<EventId>(), Ok(id.clone()));
    }

    #[test]
    fn event_id_round_trips_through_text_and_json(text in "[!-~]{1,64}") {
        let id: EventId = text.parse().unwrap();
        prop_assert_eq!(id.to_string(), text.clone());
        prop_assert_eq!(String::from(id.clone()), text);
        prop_assert_eq!(serde_json::from_str::<EventId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
    }
}
