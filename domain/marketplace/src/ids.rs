//! Identifiers of the marketplace.

use std::fmt;
use std::str::FromStr;

use handover_events::integer_id;
use serde::{Serialize, Serializer};
use uuid::Uuid;

integer_id! {
    /// A user: buyer or seller.
    UserId,
    ProductId,
    OrderId,
    PaymentId,
    RefundId,
    CouponId,
    InvoiceId,
}

/// The name of a payment or of one attempt at a refund towards the gateway. Unlike an id, it does not repeat after a
/// restored backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference(Uuid);

/// The text is not a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a UUID such as 0192f0c1-0000-7000-8000-000000000001")]
pub struct NotAReference;

impl From<Uuid> for Reference {
    fn from(uuid: Uuid) -> Reference {
        Reference(uuid)
    }
}

impl FromStr for Reference {
    type Err = NotAReference;

    /// Accepts the hyphenated form, in upper or lower case.
    fn from_str(text: &str) -> Result<Reference, NotAReference> {
        let parsed = Uuid::try_parse(text).map_err(|_| NotAReference)?;
        let is_hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
        if is_hyphenated { Ok(Reference(parsed)) } else { Err(NotAReference) }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
