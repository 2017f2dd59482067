//! Groups of events by tenant and type.

use handover_events::TenantId;

/// A group of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventGroup {
    /// All events of a tenant.
    Tenant(TenantId),
    /// All events of a type.
    Type(String),
    /// The events of a tenant of one type.
    TenantAndType(TenantId, String),
}

impl EventGroup {
    /// Whether events of this tenant and type belong to the group.
    pub fn contains(&self, tenant: TenantId, event_type: &str) -> bool {
        match self {
            EventGroup::Tenant(of) => *of == tenant,
            EventGroup::Type(of) => of == event_type,
            EventGroup::TenantAndType(of_tenant, of_type) => *of_tenant == tenant && of_type == event_type,
        }
    }
}
