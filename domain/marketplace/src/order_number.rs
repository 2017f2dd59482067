use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::OrderId;

/// Order number shown to users: `yyyyMMddHHmmss` and the last ten digits of the order id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderNo(String);

/// The text is not an order number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an order number: 24 digits")]
pub struct NotAnOrderNo;

impl OrderNo {
    /// Length of the creation time within the number.
    const TIME_CHARS: usize = 14;
    /// An id is contained in the number without its multiples of this.
    const ID_MODULUS: i64 = 10_000_000_000;
    /// Greatest multiple in [`OrderNo::possible_ids`]: enough for 10^12 orders.
    const MAX_MULTIPLE: i64 = 99;

    pub fn new(created: DateTime<Utc>, id: OrderId) -> OrderNo {
        OrderNo(format!("{}{:010}", created.format("%Y%m%d%H%M%S"), id.get() % Self::ID_MODULUS))
    }

    /// The ids of which one belongs to the order with this number, so that it is found by its primary key. Empty if the
    /// text is not an order number.
    pub fn possible_ids(&self) -> Vec<OrderId> {
        let digits = self.0.get(Self::TIME_CHARS..).and_then(|digits| digits.parse::<i64>().ok());
        let ids = digits.into_iter().flat_map(|digits| {
            (0..=Self::MAX_MULTIPLE).map(move |multiple| digits + multiple * Self::ID_MODULUS)
        });
        ids.filter_map(|id| OrderId::try_from(id).ok()).collect()
    }

    /// Creates a number from its text in storage or in a payload, without validation.
    pub fn stored(text: String) -> OrderNo {
        OrderNo(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OrderNo {
    type Err = NotAnOrderNo;

    fn from_str(text: &str) -> Result<OrderNo, NotAnOrderNo> {
        let is_number = text.len() == Self::TIME_CHARS + 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Ok(OrderNo(text.to_owned())) } else { Err(NotAnOrderNo) }
    }
}

impl fmt::Display for OrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
