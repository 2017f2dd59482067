//! Points and their value in money.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::AssetRefusal;
use crate::Money;
use handover_events::IdError;

/// A number of points: 0 to `MAX_ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Points(i64);

impl Points {
    pub const ZERO: Points = Points(0);

    pub const fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Points {
    type Error = IdError;
    fn try_from(value: i64) -> Result<Points, IdError> {
        if (0..=handover_events::MAX_ID).contains(&value) {
            Ok(Points(value))
        } else {
            Err(IdError::OutOfRange)
        }
    }
}

impl From<Points> for i64 {
    fn from(points: Points) -> i64 {
        points.0
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Value of points and earning rate (`asset.points-per-unit`, `asset.earn-per-unit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointsRules {
    /// Number of points worth 1.00.
    pub per_unit: NonZeroU32,
    /// Number of points earned for each whole 1.00 paid in money.
    pub earned_per_unit: u32,
}

impl Default for PointsRules {
    fn default() -> Self {
        PointsRules { per_unit: NonZeroU32::MIN.saturating_add(99), earned_per_unit: 1 }
    }
}

impl PointsRules {
    /// The value of points in money; an error if it is not a whole number of minor units.
    pub fn worth(self, points: Points) -> Result<Money, AssetRefusal> {
        let per_unit = i64::from(self.per_unit.get());
        let too_much = AssetRefusal::TooMuch { asset: super::Asset::Points };
        let hundredfold = points.0.checked_mul(100).ok_or(too_much.clone())?;
        if hundredfold % per_unit != 0 {
            return Err(AssetRefusal::PointsNotWhole {
                step: per_unit / greatest_common_divisor(per_unit, 100),
            });
        }
        Money::from_minor(hundredfold / per_unit).map_err(|_| too_much)
    }

    /// The points earned for an amount paid in money.
    pub fn earned(self, paid: Money) -> Points {
        let earned = (paid.minor() / 100).saturating_mul(i64::from(self.earned_per_unit));
        Points(earned.min(handover_events::MAX_ID))
    }
}

const fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
