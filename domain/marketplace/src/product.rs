//! A product: a unique item that is on sale, off sale, or sold to exactly one order.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Money, ProductId, UserId};
use handover_events::{TenantId, TextError};

/// Product status. It also represents the stock, because each product is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProductStatus {
    OnSale,
    /// Reserved or bought by an order.
    Sold,
    OffShelf,
}

handover_events::named!(ProductStatus { OnSale => "on_sale", Sold => "sold", OffShelf => "off_shelf" });

/// A state transition of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductAction {
    /// An order reserves the product.
    Occupy,
    /// The order was cancelled, or refunded before shipping.
    Release,
    /// As [`Release`](ProductAction::Release), and the seller does not offer the product any more.
    Withdraw,
    OffShelf,
    OnShelf,
}

impl ProductAction {
    pub const ALL: [ProductAction; 5] = [
        ProductAction::Occupy,
        ProductAction::Release,
        ProductAction::Withdraw,
        ProductAction::OffShelf,
        ProductAction::OnShelf,
    ];

    /// The only status in which the action is allowed, and the status after it.
    pub const fn step(self) -> (ProductStatus, ProductStatus) {
        match self {
            ProductAction::Occupy => (ProductStatus::OnSale, ProductStatus::Sold),
            ProductAction::Release => (ProductStatus::Sold, ProductStatus::OnSale),
            ProductAction::Withdraw => (ProductStatus::Sold, ProductStatus::OffShelf),
            ProductAction::OffShelf => (ProductStatus::OnSale, ProductStatus::OffShelf),
            ProductAction::OnShelf => (ProductStatus::OffShelf, ProductStatus::OnSale),
        }
    }
}

/// Reason why an action on a product is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProductRefusal {
    #[error("the product is {status}")]
    WrongStatus { status: ProductStatus },
    /// A user cannot buy their own product.
    #[error("the product is your own")]
    OwnProduct,
    /// Only the seller may perform the action.
    #[error("the product belongs to another seller")]
    NotTheSeller,
}

/// Product title: 1 to 120 characters, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Title(String);

impl Title {
    /// Maximum number of characters of a title.
    pub const MAX_CHARS: usize = 120;

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    pub id: ProductId,
    pub tenant: TenantId,
    pub seller: UserId,
    pub title: Title,
    pub price: Money,
    pub status: ProductStatus,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub update_time: DateTime<Utc>,
}

impl Product {
    /// Allowed prices in minor units.
    pub const PRICE_MINOR: std::ops::RangeInclusive<i64> = 1..=999_999_999;

    /// Applies an action; increments the version.
    pub fn apply(&self, action: ProductAction, now: DateTime<Utc>) -> Result<Product, ProductRefusal> {
        let (from, to) = action.step();
        if self.status != from {
            return Err(ProductRefusal::WrongStatus { status: self.status });
        }
        Ok(Product { status: to, version: self.version + 1, update_time: now, ..self.clone() })
    }

    /// Applies an action that only the seller may perform; see [`Product::apply`].
    pub fn apply_as(
        &self,
        action: ProductAction,
        actor: UserId,
        now: DateTime<Utc>,
    ) -> Result<Product, ProductRefusal> {
        if actor != self.seller {
            return Err(ProductRefusal::NotTheSeller);
        }
        self.apply(action, now)
    }
}
