//! Values of payload fields: how they are read, and their JSON Schema.

use handover_events::{EnvelopeError, Field, Fields, Json, MAX_ID};
use serde_json::{Value, json};

use crate::{CancelReason, Currency, Money, OrderNo, OrderStatus, PaymentMethod, Points};

impl Field for Money {
    fn read(fields: &Fields<'_>, name: &str) -> Result<Money, EnvelopeError> {
        let expected = "an amount with at most two decimals";
        match fields.value(name)? {
            Json::Number(number) => {
                Money::parse(number.as_str()).map_err(|_| fields.wrong_type(name, expected))
            }
            Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
                Err(fields.wrong_type(name, expected))
            }
        }
    }

    fn schema() -> Value {
        // No `multipleOf: 0.01`: most validators check it in binary floating point and reject amounts such as 1.13.
        json!({ "type": "number", "minimum": 0, "description": "With two decimals." })
    }
}

impl Field for Points {
    fn read(fields: &Fields<'_>, name: &str) -> Result<Points, EnvelopeError> {
        let points = Points::try_from(fields.integer(name)?);
        points.map_err(|_| fields.wrong_type(name, "an integer from 0 to 9007199254740991"))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": MAX_ID })
    }
}

/// The number 1.
pub(super) struct One;

impl Field<i64> for One {
    fn read(fields: &Fields<'_>, name: &str) -> Result<i64, EnvelopeError> {
        match fields.integer(name)? {
            1 => Ok(1),
            _ => Err(fields.wrong_type(name, "1, because products are unique")),
        }
    }

    fn schema() -> Value {
        json!({ "type": "integer", "const": 1 })
    }
}

impl Field for OrderNo {
    fn read(fields: &Fields<'_>, name: &str) -> Result<OrderNo, EnvelopeError> {
        Ok(OrderNo::stored(fields.text(name)?.to_owned()))
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Field for OrderStatus {
    fn read(fields: &Fields<'_>, name: &str) -> Result<OrderStatus, EnvelopeError> {
        fields.named(name, "an order status")
    }

    fn schema() -> Value {
        one_of(OrderStatus::ALL.iter().map(|status| status.as_str()))
    }
}

impl Field for CancelReason {
    fn read(fields: &Fields<'_>, name: &str) -> Result<CancelReason, EnvelopeError> {
        fields.named(name, "a cancel reason")
    }

    fn schema() -> Value {
        one_of(CancelReason::ALL.iter().map(|reason| reason.as_str()))
    }
}

impl Field for PaymentMethod {
    fn read(fields: &Fields<'_>, name: &str) -> Result<PaymentMethod, EnvelopeError> {
        Ok(PaymentMethod::stored(fields.text(name)?))
    }

    fn schema() -> Value {
        json!({
            "type": "string", "enum": PaymentMethod::PUBLISHED,
            "description": "`other`: an older version stored another text, which is not published.",
        })
    }
}

impl Field for Currency {
    fn read(fields: &Fields<'_>, name: &str) -> Result<Currency, EnvelopeError> {
        match fields.text(name)? {
            "CNY" => Ok(Currency::CNY),
            _ => Err(fields.wrong_type(name, "CNY")),
        }
    }

    fn schema() -> Value {
        one_of([Currency::CNY.as_str()].into_iter())
    }
}

fn one_of(names: impl Iterator<Item = &'static str>) -> Value {
    json!({ "type": "string", "enum": names.collect::<Vec<_>>() })
}
