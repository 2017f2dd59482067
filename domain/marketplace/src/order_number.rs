use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::OrderId;

/// Order number shown to users: `yyyyMMddHHmmss` and the last ten digits of the order id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderNo(String);

impl OrderNo {
    pub fn new(created: DateTime<Utc>, id: OrderId) -> OrderNo {
        OrderNo(format!("{}{:010}", created.format("%Y%m%d%H%M%S"), id.get() % 10_000_000_000))
    }

    /// Creates a number from its text in storage or in a payload, without validation.
    pub fn stored(text: String) -> OrderNo {
        OrderNo(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
