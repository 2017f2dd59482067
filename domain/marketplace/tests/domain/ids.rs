//! Ids are integers that every JSON parser reads exactly.

use handover_events::{IdError, MAX_ID, TenantId};
use marketplace_domain::{CouponId, InvoiceId, OrderId, PaymentId, ProductId, RefundId, UserId};
use proptest::prelude::*;

/// Runs a test for each integer id type.
macro_rules! each_integer_id {
    ($rule:ident) => {
        $rule!(UserId, TenantId, ProductId, OrderId, PaymentId, RefundId, CouponId, InvoiceId)
    };
}

#[test]
fn id_is_between_1_and_the_largest_exact_json_integer() {
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
fn id_in_json_is_an_integer() {
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
fn text_that_is_not_an_integer_is_rejected() {
    for text in ["", " ", "1 ", " 1", "1.0", "1e3", "0x1", "one", "1_000", "١", "99999999999999999999"] {
        assert_eq!(text.parse::<OrderId>(), Err(IdError::OutOfRange), "{text:?}");
    }
}

proptest! {
    #[test]
    fn id_round_trips_through_text_and_json(value in 1..=MAX_ID) {
        let id = OrderId::try_from(value).unwrap();
        prop_assert_eq!(i64::from(id), value);
        prop_assert_eq!(id.to_string().parse::<OrderId>(), Ok(id));
        prop_assert_eq!(serde_json::from_str::<OrderId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
    }

    #[test]
    fn integer_is_a_valid_id_exactly_if_it_is_in_range(value in any::<i64>()) {
        prop_assert_eq!(UserId::try_from(value).is_ok(), (1..=MAX_ID).contains(&value));
    }
}
