//! Amounts of assets.

use marketplace_domain::Asset;
use serde::{Serialize, Serializer};
use serde_json::Number;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::openapi::kinds;

/// An amount of an asset as a JSON number: money with two decimals, points as an integer. Unlike
/// [`marketplace_domain::Money`] it may be negative, as ledger entries may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AssetAmount {
    pub(crate) asset: Asset,
    /// The amount in minor units (money) or in points.
    pub(crate) amount: i64,
}

impl Serialize for AssetAmount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // serde_json's `arbitrary_precision` keeps the text of a number: -5.00 is written as -5.00.
        Number::from_string_unchecked(self.asset.show(self.amount)).serialize(serializer)
    }
}

impl PartialSchema for AssetAmount {
    fn schema() -> RefOr<Schema> {
        kinds::AssetAmount::schema()
    }
}

impl ToSchema for AssetAmount {}
