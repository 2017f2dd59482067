//! Ids are integers that every JSON reader keeps whole; an event id is a short visible text.

use handover_domain::{
    CouponId, EventId, IdError, InvoiceId, MAX_ID, OrderId, PaymentId, ProductId, RefundId, TenantId, UserId,
};
use proptest::prelude::*;
use uuid::Uuid;

/// Tries a rule on each integer id.
macro_rules! each_integer_id {
    ($rule:ident) => {
        $rule!(UserId, TenantId, ProductId, OrderId, PaymentId, RefundId, CouponId, InvoiceId)
    };
}

#[test]
fn the_greatest_id_is_the_last_integer_that_a_double_keeps_apart_from_the_next() {
    assert_eq!(MAX_ID, 9_007_199_254_740_991);
}

#[test]
fn an_id_is_from_1_to_the_greatest() {
    macro_rules! rule {
        ($($id:ty),+) => {$(
            for value in [1, 2, 900_001, MAX_ID] {
                assert_eq!(<$id>::try_from(value).map(<$id>::get), Ok(value));
            }
            for value in [i64::MIN, -1, 0, MAX_ID + 1, i64::MAX] {
                assert_eq!(<$id>::try_from(value), Err(IdError::OutOfRange), "{value}");
                assert_eq!(value.to_string().parse::<$id>(), Err(IdError::OutOfRange), "{value}");
                assert!(serde_json::from_str::<$id>(&value.to_string()).is_err(), "{value}");
            }
        )+};
    }
    each_integer_id!(rule);
}

#[test]
fn an_id_is_a_json_integer_and_nothing_else() {
    macro_rules! rule {
        ($($id:ty),+) => {$(
            let id = <$id>::try_from(MAX_ID).unwrap();
            assert_eq!(serde_json::to_string(&id).unwrap(), "9007199254740991");
            assert_eq!(serde_json::from_str::<$id>("9007199254740991").unwrap(), id);
            for text in [r#""1""#, "1.0", "1.5", "1e3", "null", "true", "[1]", "9223372036854775808"] {
                assert!(serde_json::from_str::<$id>(text).is_err(), "{text}");
            }
        )+};
    }
    each_integer_id!(rule);
}

#[test]
fn what_is_no_integer_is_no_id() {
    for text in ["", " ", "1 ", " 1", "1.0", "1e3", "0x1", "one", "1_000", "١", "99999999999999999999"] {
        assert_eq!(text.parse::<OrderId>(), Err(IdError::OutOfRange), "{text:?}");
    }
}

#[test]
fn the_default_tenant_is_1() {
    assert_eq!(TenantId::DEFAULT.get(), 1);
}

#[test]
fn an_event_id_is_1_to_64_characters() {
    for length in 1..=64 {
        let text = "a".repeat(length);
        assert_eq!(text.parse::<EventId>().unwrap().as_str(), text);
    }
    for length in [0, 65, 66, 1000] {
        assert_eq!("a".repeat(length).parse::<EventId>(), Err(IdError::NotAnEventId), "{length} characters");
    }
}

#[test]
fn an_event_id_is_visible_ascii() {
    for character in (0..=255u8).map(char::from) {
        let visible = ('!'..='~').contains(&character);
        assert_eq!(format!("a{character}b").parse::<EventId>().is_ok(), visible, "{character:?}");
    }
    for text in ["a b", " a", "a\n", "事件", "é", "a\u{200b}"] {
        assert_eq!(text.parse::<EventId>(), Err(IdError::NotAnEventId), "{text:?}");
        let json = serde_json::to_string(text).unwrap();
        assert!(serde_json::from_str::<EventId>(&json).is_err(), "{json}");
    }
}

#[test]
fn event_ids_differ_when_their_bytes_do() {
    assert_ne!("Key-a".parse::<EventId>(), "key-a".parse::<EventId>());
}

proptest! {
    #[test]
    fn an_id_survives_text_and_json(value in 1..=MAX_ID) {
        let id = OrderId::try_from(value).unwrap();
        prop_assert_eq!(i64::from(id), value);
        prop_assert_eq!(id.to_string().parse::<OrderId>(), Ok(id));
        prop_assert_eq!(serde_json::from_str::<OrderId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
    }

    #[test]
    fn every_integer_is_an_id_exactly_when_it_is_in_range(value in any::<i64>()) {
        prop_assert_eq!(UserId::try_from(value).is_ok(), (1..=MAX_ID).contains(&value));
    }

    #[test]
    fn a_uuid_is_an_event_id_in_its_usual_form(bits in any::<u128>()) {
        let uuid = Uuid::from_u128(bits);
        let id = EventId::from(uuid);
        prop_assert_eq!(id.as_str(), uuid.to_string());
        prop_assert_eq!(id.as_str().parse::<EventId>(), Ok(id.clone()));
    }

    #[test]
    fn an_event_id_survives_text_and_json(text in "[!-~]{1,64}") {
        let id: EventId = text.parse().unwrap();
        prop_assert_eq!(id.to_string(), text.clone());
        prop_assert_eq!(String::from(id.clone()), text);
        prop_assert_eq!(serde_json::from_str::<EventId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
    }
}
