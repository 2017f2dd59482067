//! Ids of webhook endpoints.

use std::fmt;

use handover_events::TenantId;
use uuid::Uuid;

/// Id of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub Uuid);

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An endpoint of a tenant. Reads and writes by this key MUST NOT reach an endpoint of another tenant, nor its deliveries:
/// they do the same as for an endpoint that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey {
    /// Tenant of the endpoint.
    pub tenant: TenantId,
    /// Id of the endpoint.
    pub id: EndpointId,
}
