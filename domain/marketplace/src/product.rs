//! A product: one unique thing, on sale, off the shelf, or taken by exactly one order.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Money, ProductId, UserId};
use handover_events::{TenantId, TextError};

/// Where a product stands (000 §0.14: the status is the stock).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProductStatus {
    /// Can be bought.
    OnSale,
    /// Taken by an order.
    Sold,
    /// Hidden by its seller.
    OffShelf,
}

handover_events::named!(ProductStatus { OnSale => "on_sale", Sold => "sold", OffShelf => "off_shelf" });

/// What can happen to a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductAction {
    /// An order takes it.
    Occupy,
    /// That order was cancelled, or refunded before shipping.
    Release,
    /// Its seller hides it.
    OffShelf,
    /// Its seller shows it again.
    OnShelf,
}

impl ProductAction {
    /// Every action, for tests that try them all.
    pub const ALL: [ProductAction; 4] =
        [ProductAction::Occupy, ProductAction::Release, ProductAction::OffShelf, ProductAction::OnShelf];

    /// The only status from which the action is legal, and the one it leads to.
    pub const fn step(self) -> (ProductStatus, ProductStatus) {
        match self {
            ProductAction::Occupy => (ProductStatus::OnSale, ProductStatus::Sold),
            ProductAction::Release => (ProductStatus::Sold, ProductStatus::OnSale),
            ProductAction::OffShelf => (ProductStatus::OnSale, ProductStatus::OffShelf),
            ProductAction::OnShelf => (ProductStatus::OffShelf, ProductStatus::OnSale),
        }
    }
}

/// Why a product refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProductRefusal {
    /// The status does not allow the action.
    #[error("the product is {status}")]
    WrongStatus {
        /// The status it has.
        status: ProductStatus,
    },
    /// Nobody buys their own product.
    #[error("the product is your own")]
    OwnProduct,
    /// Only its seller may do this.
    #[error("the product belongs to another seller")]
    NotTheSeller,
}

/// The title of a product: 1 to 120 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Title(String);

impl Title {
    /// The greatest number of characters.
    pub const MAX_CHARS: usize = 120;

    /// The title as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Title {
    type Error = TextError;
    fn try_from(text: String) -> Result<Title, TextError> {
        TextError::check(&text, Title::MAX_CHARS)?;
        Ok(Title(text))
    }
}

impl From<Title> for String {
    fn from(title: Title) -> String {
        title.0
    }
}

/// A product and the version of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Its id.
    pub id: ProductId,
    /// The marketplace it is sold on.
    pub tenant: TenantId,
    /// Who sells it.
    pub seller: UserId,
    /// What it is.
    pub title: Title,
    /// What it costs.
    pub price: Money,
    /// Where it stands.
    pub status: ProductStatus,
    /// Counts the changes of the row, from 1.
    pub version: i64,
    /// When it was listed.
    pub create_time: DateTime<Utc>,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Product {
    /// The least and the greatest price in minor units (spec §4 "Limits").
    pub const PRICE_MINOR: std::ops::RangeInclusive<i64> = 1..=999_999_999;

    /// The product after an action, one version on.
    pub fn apply(&self, action: ProductAction, now: DateTime<Utc>) -> Result<Product, ProductRefusal> {
        let (from, to) = action.step();
        if self.status != from {
            return Err(ProductRefusal::WrongStatus { status: self.status });
        }
        Ok(Product { status: to, version: self.version + 1, update_time: now, ..self.clone() })
    }

    /// As [`Product::apply`], for what only the seller may do.
    pub fn apply_as(
        &self,
        action: ProductAction,
        who: UserId,
        now: DateTime<Utc>,
    ) -> Result<Product, ProductRefusal> {
        if who != self.seller {
            return Err(ProductRefusal::NotTheSeller);
        }
        self.apply(action, now)
    }
}
