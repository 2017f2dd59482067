//! Division of the capacity of a process among the receivers of webhooks.

use std::collections::BTreeMap;

use handover_events::TenantId;

use super::endpoint_id::{EndpointId, EndpointKey};

/// A tenant holds at most this many times as many attempts as are free.
const TENANT_SHARE: u64 = 3;

/// The attempts that a process can begin, and those in progress by tenant and endpoint.
///
/// - A tenant gets another attempt while it has fewer than three times as many in progress as are free. One tenant thus
///   holds three quarters of the capacity at most, a second one three quarters of the rest, and so on.
/// - An endpoint gets another attempt while it has fewer in progress than its tenant can still get.
///
/// So receivers that are slow, however many and whatever their limits, leave attempts for others. The rule is that of
/// buffers that ports of a network switch share (dynamic thresholds).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookCapacity {
    free: u32,
    of_tenants: BTreeMap<TenantId, u32>,
    of_endpoints: BTreeMap<EndpointId, u32>,
}

impl WebhookCapacity {
    /// Capacity with this number of free attempts beside those in progress.
    pub fn new(free: u32, in_progress: &BTreeMap<EndpointKey, u32>) -> WebhookCapacity {
        let mut of_tenants = BTreeMap::new();
        for (endpoint, count) in in_progress {
            *of_tenants.entry(endpoint.tenant).or_default() += count;
        }
        let of_endpoints = in_progress.iter().map(|(endpoint, count)| (endpoint.id, *count)).collect();
        WebhookCapacity { free, of_tenants, of_endpoints }
    }

    /// Whether an attempt at this endpoint may begin.
    pub fn has_room(&self, endpoint: EndpointKey) -> bool {
        let of_tenant = u64::from(self.of_tenants.get(&endpoint.tenant).copied().unwrap_or_default());
        let of_endpoint = u64::from(self.of_endpoints.get(&endpoint.id).copied().unwrap_or_default());
        // Each attempt of the tenant raises its number by one, and lowers its bound by the share.
        let left = (TENANT_SHARE * u64::from(self.free)).saturating_sub(of_tenant).div_ceil(TENANT_SHARE + 1);
        of_endpoint < left
    }

    /// Begins an attempt at this endpoint, if it may begin.
    pub fn take(&mut self, endpoint: EndpointKey) -> bool {
        let has_room = self.has_room(endpoint);
        if has_room {
            self.free -= 1;
            *self.of_tenants.entry(endpoint.tenant).or_default() += 1;
            *self.of_endpoints.entry(endpoint.id).or_default() += 1;
        }
        has_room
    }
}
