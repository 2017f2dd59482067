//! What an event is about.

use crate::TenantId;

/// Which aggregate, within a tenant. The type is text: a row or message from elsewhere may name one we do not know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateRef {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// `Order`, `Book`, ...
    pub kind: String,
    /// Its id.
    pub id: i64,
}
