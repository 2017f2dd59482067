//! The payment method of a payment: a closed set, so that no number of a card or an account is stored or published.

use std::fmt;
use std::str::FromStr;

use handover_events::UnknownName;
use serde::{Serialize, Serializer};

/// Payment method that a buyer can choose. Parsing accepts the names in [`PaymentMethod::ACCEPTED`] only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PaymentMethod {
    #[default]
    Online,
    Card,
    Wallet,
    Alipay,
    Wechat,
    BankTransfer,
    /// A stored value outside the set. Older versions stored any text of the buyer, such as the number of a card, so the
    /// value is not kept.
    Other,
}

impl PaymentMethod {
    /// Names of the methods that a buyer can choose.
    pub const ACCEPTED: [&str; 6] = ["online", "card", "wallet", "alipay", "wechat", "bank-transfer"];
    /// Names that are shown and published; all other stored values are replaced by [`PaymentMethod::MASK`].
    pub const PUBLISHED: [&str; 7] =
        ["online", "card", "wallet", "alipay", "wechat", "bank-transfer", PaymentMethod::MASK];
    /// Replacement for a stored value outside the set.
    pub const MASK: &str = "other";

    /// The method with this stored name; [`PaymentMethod::Other`] for any other text.
    pub fn stored(name: &str) -> PaymentMethod {
        name.parse().unwrap_or(PaymentMethod::Other)
    }

    /// The name in columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            PaymentMethod::Online => "online",
            PaymentMethod::Card => "card",
            PaymentMethod::Wallet => "wallet",
            PaymentMethod::Alipay => "alipay",
            PaymentMethod::Wechat => "wechat",
            PaymentMethod::BankTransfer => "bank-transfer",
            PaymentMethod::Other => PaymentMethod::MASK,
        }
    }
}

impl fmt::Display for PaymentMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PaymentMethod {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<PaymentMethod, UnknownName> {
        match name {
            "online" => Ok(PaymentMethod::Online),
            "card" => Ok(PaymentMethod::Card),
            "wallet" => Ok(PaymentMethod::Wallet),
            "alipay" => Ok(PaymentMethod::Alipay),
            "wechat" => Ok(PaymentMethod::Wechat),
            "bank-transfer" => Ok(PaymentMethod::BankTransfer),
            _ => Err(UnknownName { expected: "online card wallet alipay wechat bank-transfer" }),
        }
    }
}

impl Serialize for PaymentMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
