//! Reads amounts of money and points from a payload.

use handover_events::{EnvelopeError, Fields, Json};

use crate::{Money, Points};

/// Reads a required field that is an amount of money.
pub(super) fn money(fields: &Fields<'_>, name: &str) -> Result<Money, EnvelopeError> {
    let expected = "an amount with at most two decimals";
    match fields.value(name)? {
        Json::Number(number) => Money::parse(number.as_str()).map_err(|_| fields.wrong_type(name, expected)),
        Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            Err(fields.wrong_type(name, expected))
        }
    }
}

/// Reads a required field that is a number of points.
pub(super) fn points(fields: &Fields<'_>, name: &str) -> Result<Points, EnvelopeError> {
    let points = Points::try_from(fields.integer(name)?);
    points.map_err(|_| fields.wrong_type(name, "an integer from 0 to 9007199254740991"))
}
