//! The aggregate that an event belongs to.

use crate::ids::TenantId;

/// Identifies an aggregate within a tenant. The type is text, because a row or message of another writer may name an
/// unknown type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateRef {
    /// The tenant that the aggregate belongs to.
    pub tenant: TenantId,
    /// The aggregate type: `Order`, `Book`, ...
    pub kind: String,
    /// The id within the aggregate type.
    pub id: i64,
}
