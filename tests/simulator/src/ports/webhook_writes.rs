//! The writes of a unit of work to the tables of webhooks, and the checks at its commit.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::{AggregateId, AggregateRef, EventId, EventType as _, TenantId};
use handover_outbox::ports::{
    ClaimedDelivery, EndpointId, NewEvent, NewWebhookDelivery, StoreError, WebhookClaim, WebhookEndpoint,
};
use handover_outbox::webhooks::{DeliveryDead, EndpointDisabled};
use marketplace::ports::Work;

use super::Process;
use crate::actors::webhooks::offer;

/// Reason of endpoints that operators disabled.
pub(super) const DISABLED_BY_OPERATOR: &str = "disabled by an operator";

/// An event that the consumer of webhooks applied.
pub(super) struct AppliedEvent {
    pub(super) event: EventId,
    pub(super) event_type: String,
    pub(super) aggregate: AggregateRef,
}

/// A delivery that became `DEAD`.
pub(super) struct DeadDelivery {
    pub(super) id: i64,
    /// Whether an event announces it.
    pub(super) is_announced: bool,
}

/// The writes of a unit of work to the tables of webhooks.
#[derive(Default)]
pub(super) struct WebhookWrites {
    /// Events that the consumer of webhooks recorded as SUCCESS.
    pub(super) applied: Vec<AppliedEvent>,
    /// Versions of the endpoints that the application read.
    read: Option<BTreeMap<EndpointId, i64>>,
    pub(super) written: Vec<NewWebhookDelivery>,
    pub(super) claimed: Option<(WebhookClaim, Vec<ClaimedDelivery>)>,
    pub(super) delivered: Vec<i64>,
    pub(super) dead: Vec<DeadDelivery>,
    /// Endpoints that the dispatcher disabled.
    pub(super) disabled: Vec<EndpointId>,
    /// Appended events about webhooks: their types, aggregates and payloads.
    appended: Vec<(String, AggregateId, String)>,
}

/// Whether events with this type for receivers are about webhooks.
pub(super) fn is_about_webhooks(name: &str) -> bool {
    name == EndpointDisabled::ROUTING_KEY || name == DeliveryDead::ROUTING_KEY
}

/// Whether the endpoint asked for events of this type. Computed independently of the application.
pub(crate) fn asks_for(endpoint: &WebhookEndpoint, name: &str) -> bool {
    endpoint.event_types.iter().any(|pattern| match pattern.as_str() {
        "*" => true,
        pattern => pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix)),
    })
}

/// Whether an event of this type and aggregate must be delivered to the endpoint.
pub(crate) fn is_for(endpoint: &WebhookEndpoint, event_type: &str, aggregate: &AggregateRef) -> bool {
    let is_about_itself =
        aggregate.kind == EndpointDisabled::AGGREGATE && aggregate.id == AggregateId::from(endpoint.id.0);
    let offered = offer().of_row(event_type);
    let is_wanted = offered.is_some_and(|offered| asks_for(endpoint, &offered.name));
    endpoint.tenant == aggregate.tenant && is_wanted && !is_about_itself
}

impl WebhookWrites {
    /// Records which endpoints the application read.
    pub(super) fn record_read(&mut self, endpoints: &[WebhookEndpoint]) {
        let read = self.read.get_or_insert_default();
        read.extend(endpoints.iter().map(|endpoint| (endpoint.id, endpoint.version)));
    }

    pub(super) fn record_appended(&mut self, events: &[NewEvent]) {
        let about = events.iter().filter(|event| event.aggregate.kind == EndpointDisabled::AGGREGATE);
        let about =
            about.map(|event| (event.event_type.clone(), event.aggregate.id.clone(), event.payload.clone()));
        self.appended.extend(about);
    }

    /// Checks before the commit that each applied event has a delivery to each endpoint that asked for it, and no other.
    /// An endpoint that was changed since the application read it is not checked.
    pub(super) async fn check_applied(&self, unit: &mut Work) -> Result<Vec<String>, StoreError> {
        let mut violations = Vec::new();
        if self.applied.is_empty() {
            return Ok(violations);
        }
        let tenants: BTreeSet<TenantId> = self.applied.iter().map(|event| event.aggregate.tenant).collect();
        let tenants: Vec<TenantId> = tenants.into_iter().collect();
        let endpoints = unit.outbox().webhook_endpoints(&tenants).await?;
        let is_unchanged = |endpoint: &&WebhookEndpoint| {
            self.read.as_ref().is_none_or(|read| read.get(&endpoint.id) == Some(&endpoint.version))
        };
        let written: BTreeSet<(EndpointId, &EventId)> =
            self.written.iter().map(|new| (new.endpoint, &new.event_id)).collect();
        for endpoint in endpoints.iter().filter(is_unchanged) {
            for AppliedEvent { event, event_type, aggregate } in &self.applied {
                let id = endpoint.id;
                match (is_for(endpoint, event_type, aggregate), written.contains(&(id, event))) {
                    (true, false) => violations.push(format!("{event} has no delivery to endpoint {id}")),
                    (false, true) => {
                        violations
                            .push(format!("{event} has a delivery to endpoint {id}, which must not get it"));
                    }
                    (true, true) | (false, false) => {}
                }
            }
        }
        for new in &self.written {
            let event = self.applied.iter().find(|event| event.event == new.event_id);
            if event.is_none_or(|event| event.aggregate.tenant != new.tenant) || new.redelivery > 0 {
                let violation = format!("the consumer wrote delivery {} of {}", new.redelivery, new.event_id);
                violations.push(format!("{violation} to endpoint {}, which is not due", new.endpoint));
            }
        }
        Ok(violations)
    }

    /// Checks and records the writes after the commit.
    pub(super) fn record_commit(&self, process: &Process, is_audited: bool) {
        let mut violations = Vec::new();
        if self.applied.is_empty() && !is_audited {
            violations.extend(self.written.iter().map(|new| {
                format!(
                    "the delivery of {} to endpoint {} belongs to no consume-log record",
                    new.event_id, new.endpoint
                )
            }));
        }
        violations.extend(self.unannounced());
        process.faults.observed(|observed| {
            if let Some((claim, claimed)) = &self.claimed {
                violations.extend(observed.webhooks.record_claim(&process.name, claim, claimed));
            }
            observed.webhooks.delivered.extend(self.delivered.iter().copied());
        });
        violations.into_iter().for_each(|violation| process.faults.violation(violation));
    }

    /// A dead delivery and a disabled endpoint are announced by one event each, and nothing else is.
    fn unannounced(&self) -> Vec<String> {
        let mut violations = Vec::new();
        let announced: Vec<&DeadDelivery> = self.dead.iter().filter(|dead| dead.is_announced).collect();
        for dead in &announced {
            let id = format!("\"deliveryId\":{},", dead.id);
            let events = self.appended.iter().filter(|(_, _, payload)| payload.contains(&id)).count();
            if events != 1 {
                violations.push(format!("delivery {} is DEAD, and {events} events announce it", dead.id));
            }
        }
        for endpoint in &self.disabled {
            let is_about = |(event_type, aggregate, _): &&(String, AggregateId, String)| {
                event_type == EndpointDisabled::NAME && *aggregate == AggregateId::from(endpoint.0)
            };
            let events = self.appended.iter().filter(is_about).count();
            if events != 1 {
                violations.push(format!("endpoint {endpoint} was disabled, and {events} events announce it"));
            }
        }
        if self.appended.len() > announced.len() + self.disabled.len() {
            violations.push(format!("events about webhooks announce nothing: {:?}", self.appended));
        }
        violations
    }
}
