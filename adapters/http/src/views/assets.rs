//! Amounts of assets.

use marketplace_domain::Asset;
use serde::{Serialize, Serializer};
use serde_json::Number;

/// So much of an asset, as a JSON number: money with two decimals, points whole. Unlike [`marketplace_domain::Money`] it may
/// be negative, as an entry of the ledger may.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AssetAmount {
    pub(crate) asset: Asset,
    /// Minor units or points.
    pub(crate) amount: i64,
}

impl Serialize for AssetAmount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A number that keeps its text (`arbitrary_precision`): -5.00 stays -5.00.
        Number::from_string_unchecked(self.asset.show(self.amount)).serialize(serializer)
    }
}
