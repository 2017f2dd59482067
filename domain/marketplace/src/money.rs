//! Money: integer minor units internally, a JSON number with two decimals in payloads.
//!
//! **Invariant:** no binary floating point, no rounding. More than two decimals are an error.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount in minor units (cents, fen), from 0 to `MAX_ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i64);

/// Reason why a value is not a valid amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("must be a plain decimal number such as 88.50")]
    NotDecimal,
    /// The number has more than two decimals; amounts are never rounded.
    #[error("must have at most two decimals")]
    TooPrecise,
    /// The amount is negative, or above the largest integer that a JSON number represents exactly.
    #[error("must be from 0 to 90071992547409.91")]
    OutOfRange,
}

impl Money {
    pub const ZERO: Money = Money(0);
    const MAX_MINOR: i64 = handover_events::MAX_ID;

    pub fn from_minor(minor: i64) -> Result<Money, MoneyError> {
        if (0..=Self::MAX_MINOR).contains(&minor) { Ok(Money(minor)) } else { Err(MoneyError::OutOfRange) }
    }

    pub const fn minor(self) -> i64 {
        self.0
    }

    /// Subtracts an amount; `None` if the result is negative.
    pub fn checked_sub(self, subtrahend: Money) -> Option<Money> {
        (subtrahend <= self).then(|| Money(self.0 - subtrahend.0))
    }

    /// Parses a plain decimal: digits, optionally a point and one or two decimals. No sign, no exponent.
    pub fn parse(text: &str) -> Result<Money, MoneyError> {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if let Some(rest) = text.strip_prefix('-') {
            return if digits(&rest.replacen('.', "", 1)) {
                Err(MoneyError::OutOfRange)
            } else {
                Err(MoneyError::NotDecimal)
            };
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if !digits(whole) || !digits(fraction) {
            return Err(MoneyError::NotDecimal);
        }
        if fraction.len() > 2 {
            return Err(MoneyError::TooPrecise);
        }
        let whole: i64 = whole.parse().map_err(|_| MoneyError::OutOfRange)?;
        let cents: i64 = format!("{fraction:0<2}").parse().map_err(|_| MoneyError::NotDecimal)?;
        let minor =
            whole.checked_mul(100).and_then(|m| m.checked_add(cents)).ok_or(MoneyError::OutOfRange)?;
        Money::from_minor(minor)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

impl std::str::FromStr for Money {
    type Err = MoneyError;
    fn from_str(text: &str) -> Result<Money, MoneyError> {
        Money::parse(text)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `arbitrary_precision` keeps the digits of the number: 88.50 is not written as 88.5.
        serde_json::Number::from_string_unchecked(self.to_string()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        Money::parse(number.as_str()).map_err(de::Error::custom)
    }
}

/// ISO 4217 currency. A deployment uses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Currency {
    /// Renminbi.
    CNY,
}

impl Currency {
    /// The ISO 4217 code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Currency::CNY => "CNY",
        }
    }
}
