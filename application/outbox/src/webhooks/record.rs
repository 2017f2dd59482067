//! Records the results of attempts: deliveries, health of endpoints, and the events about both, in one transaction.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, EventId, EventType, TenantId};
use serde::Serialize;
use tracing::warn;

use super::deliveries::is_about_webhooks;
use super::events::{DeliveryDead, EndpointDisabled};
use crate::metrics::{WEBHOOK_DEAD, WEBHOOK_DISABLED, WEBHOOK_FAILING, append, count_on_commit};
use crate::operations::{Action, Operator};
use crate::ports::{
    AfterAttempt, AttemptOutcome, AuditEntry, EndpointHealth, EndpointId, EndpointStatus, EventMetadata,
    NewEvent, OutboxUnit, SettledDelivery, StoreError, WebhookEndpoint,
};
use crate::transaction::{Transactor, with_tx};
use handover_events::Trace;

/// Age of the stored time of the last success from which it is stored again: a busy endpoint is not written at each
/// success.
const SUCCESS_RESOLUTION: TimeDelta = TimeDelta::seconds(60);
/// An endpoint whose attempts all failed for this time is disabled.
const MAX_FAILING: TimeDelta = TimeDelta::days(5);
/// Number of failed attempts in a row from which an endpoint is reported as failing.
const FAILING_AFTER: u32 = 4;

/// The result of a claimed delivery, and its effects on the endpoint.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(super) settled: SettledDelivery,
    pub(super) event_id: EventId,
    /// Type of the event in outbox rows or for receivers.
    pub(super) event_type: String,
    /// Health of the endpoint when the delivery was claimed.
    pub(super) seen: EndpointHealth,
    /// End of the pause that the receiver asked for.
    pub(super) pause: Option<DateTime<Utc>>,
    /// Whether the receiver answered that the endpoint does not exist any more.
    pub(super) is_gone: bool,
    /// Ids of the events that this result may announce, chosen before the first attempt at the unit of work.
    pub(super) announced_as: EventId,
    pub(super) disabled_as: EventId,
}

impl Recording {
    fn outcome(&self) -> Option<AttemptOutcome> {
        self.settled.attempt.as_ref().map(|attempt| attempt.outcome)
    }

    /// Whether the health of the endpoint changes.
    fn changes_health(&self) -> bool {
        match self.outcome() {
            Some(AttemptOutcome::Delivered) => {
                let is_stale =
                    |last: DateTime<Utc>| self.settled.at.signed_duration_since(last) >= SUCCESS_RESOLUTION;
                self.seen.failing_since.is_some() || self.seen.last_success.is_none_or(is_stale)
            }
            Some(AttemptOutcome::Failed) => true,
            Some(AttemptOutcome::Interrupted) | None => false,
        }
    }

    fn apply(&self, health: &mut EndpointHealth) {
        let at = self.settled.at;
        match self.outcome() {
            Some(AttemptOutcome::Delivered) => {
                health.failing_since = None;
                health.failures = 0;
                health.last_success = health.last_success.max(Some(at));
            }
            Some(AttemptOutcome::Failed) => {
                health.failing_since.get_or_insert(at);
                health.failures = health.failures.saturating_add(1);
                health.paused_until = health.paused_until.max(self.pause);
            }
            Some(AttemptOutcome::Interrupted) | None => {}
        }
    }
}

struct Job {
    recordings: Vec<Recording>,
    max_retry_count: u32,
}

/// Records the results in one unit of work. Results whose claims ended change nothing but the health of their endpoints.
pub(super) async fn record(
    tx: &Transactor,
    recordings: Vec<Recording>,
    max_retry_count: u32,
) -> Result<(), StoreError> {
    with_tx(tx, Job { recordings, max_retry_count }, |unit, job, _| {
        Box::pin(async move { job.run(unit.outbox()).await })
    })
    .await
}

impl Job {
    async fn run(&self, unit: &mut dyn OutboxUnit) -> Result<(), StoreError> {
        let mut by_endpoint: BTreeMap<EndpointId, Vec<&Recording>> = BTreeMap::new();
        for recording in &self.recordings {
            by_endpoint.entry(recording.settled.endpoint).or_default().push(recording);
        }
        let mut events = Vec::new();
        // Endpoints are locked in the order of their ids, and before their deliveries.
        for (endpoint, recordings) in by_endpoint {
            if recordings.iter().any(|recording| recording.changes_health()) {
                events.extend(self.update(unit, endpoint, &recordings).await?);
            }
        }
        let settled: Vec<SettledDelivery> = self.recordings.iter().map(|it| it.settled.clone()).collect();
        let recorded = unit.settle_webhook_deliveries(&settled).await?;
        for recording in &self.recordings {
            if recording.settled.after == AfterAttempt::Dead && recorded.contains(&recording.settled.delivery)
            {
                events.extend(self.announce_dead(unit, recording).await?);
            }
        }
        if events.is_empty() { Ok(()) } else { append(unit, &events).await }
    }

    /// Updates the health of an endpoint, and disables it if it does not exist any more or fails for too long.
    async fn update(
        &self,
        unit: &mut dyn OutboxUnit,
        id: EndpointId,
        recordings: &[&Recording],
    ) -> Result<Option<NewEvent>, StoreError> {
        let Some(endpoint) = unit.lock_webhook_endpoint(id).await? else { return Ok(None) };
        let mut health = endpoint.health.clone();
        let mut disabled = None;
        for recording in recordings {
            let failures = health.failures;
            recording.apply(&mut health);
            if failures < FAILING_AFTER && health.failures == FAILING_AFTER {
                warn!(endpointId = %id, failingSince = ?health.failing_since,
                    "[Webhooks] endpoint is failing: its last {FAILING_AFTER} attempts failed");
                count_on_commit(metrics::counter!(WEBHOOK_FAILING), 1);
            }
            let at = recording.settled.at;
            let is_hopeless = health.failing_since.is_some_and(|since| at - since >= MAX_FAILING);
            let reason = if recording.is_gone {
                Some("the receiver answered 410 Gone")
            } else if is_hopeless {
                Some("all attempts of 5 days failed")
            } else {
                None
            };
            if disabled.is_none() {
                disabled = reason.map(|reason| (reason, *recording));
            }
        }
        unit.set_webhook_health(id, &health).await?;
        match disabled {
            Some((reason, recording)) if endpoint.status == EndpointStatus::Enabled => {
                self.disable(unit, endpoint, reason, recording).await
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn disable(
        &self,
        unit: &mut dyn OutboxUnit,
        endpoint: WebhookEndpoint,
        reason: &str,
        recording: &Recording,
    ) -> Result<Option<NewEvent>, StoreError> {
        // The record is repeated after a commit of unknown outcome. An operator may have enabled the endpoint in between.
        if !unit.outbox_by_event(std::slice::from_ref(&recording.disabled_as)).await?.is_empty() {
            return Ok(None);
        }
        let at = recording.settled.at;
        let (id, tenant) = (endpoint.id, endpoint.tenant);
        let after = WebhookEndpoint {
            status: EndpointStatus::Disabled,
            disabled_reason: Some(reason.to_owned()),
            version: endpoint.version + 1,
            update_time: at,
            ..endpoint
        };
        unit.replace_webhook_endpoint(&after).await?.or_conflict("webhook endpoint")?;
        unit.audit(&disabled_entry(tenant, id, reason, recording)).await?;
        warn!(endpointId = %id, tenantId = %tenant, reason, "[Webhooks] [ALERT] endpoint disabled");
        count_on_commit(metrics::counter!(WEBHOOK_DISABLED), 1);
        let payload = EndpointDisabled { endpoint_id: id.0, reason: reason.to_owned() };
        self.event(tenant, id, &payload, &recording.disabled_as, at).map(Some)
    }

    /// The event about a dead delivery, unless the delivery was one of an event about webhooks.
    async fn announce_dead(
        &self,
        unit: &mut dyn OutboxUnit,
        recording: &Recording,
    ) -> Result<Option<NewEvent>, StoreError> {
        let SettledDelivery { delivery, endpoint, at, error, .. } = &recording.settled;
        count_on_commit(metrics::counter!(WEBHOOK_DEAD), 1);
        let Some(row) = unit.webhook_delivery(*delivery).await? else { return Ok(None) };
        if is_about_webhooks_by_name(&recording.event_type) {
            return Ok(None);
        }
        let payload = DeliveryDead {
            endpoint_id: endpoint.0,
            delivery_id: *delivery,
            event_id: recording.event_id.as_str().to_owned(),
            reason: error.clone().unwrap_or_default(),
        };
        self.event(row.tenant, *endpoint, &payload, &recording.announced_as, *at).map(Some)
    }

    fn event<E: EventType + Serialize>(
        &self,
        tenant: TenantId,
        endpoint: EndpointId,
        payload: &E,
        id: &EventId,
        at: DateTime<Utc>,
    ) -> Result<NewEvent, StoreError> {
        let payload = serde_json::to_string(payload).map_err(|error| StoreError::Backend(Box::new(error)))?;
        Ok(NewEvent {
            event_id: id.clone(),
            event_type: E::NAME.to_owned(),
            aggregate: AggregateRef { tenant, kind: E::AGGREGATE.to_owned(), id: endpoint.0.into() },
            aggregate_seq: None,
            payload,
            metadata: EventMetadata { trace_id: Some(trace_of(endpoint)), ..EventMetadata::default() },
            occurred_at: at,
            max_retry_count: self.max_retry_count,
            routing_key: Some(E::ROUTING_KEY.to_owned()),
            due: None,
        })
    }
}

/// Whether a type with this name for receivers is about webhooks.
fn is_about_webhooks_by_name(name: &str) -> bool {
    name == EndpointDisabled::ROUTING_KEY || name == DeliveryDead::ROUTING_KEY || is_about_webhooks(name)
}

fn trace_of(endpoint: EndpointId) -> String {
    format!("webhook-{endpoint}")
}

/// Audit entry of the dispatcher, which acts as an operator without a name of its own.
fn disabled_entry(tenant: TenantId, endpoint: EndpointId, reason: &str, recording: &Recording) -> AuditEntry {
    let dispatcher = Operator {
        name: "webhook-dispatcher".to_owned(),
        tenant,
        sees_all_tenants: false,
        sees_personal_data: false,
        trace: Trace { trace_id: trace_of(endpoint), traceparent: None },
    };
    let selection = vec![
        ("endpointId".to_owned(), endpoint.to_string().into()),
        ("automatic".to_owned(), true.into()),
        ("cause".to_owned(), reason.into()),
    ];
    let action = Action { name: "webhooks.disable", selection, reason: None };
    let entry = action.entry(&dispatcher, (1, 1), recording.settled.at);
    AuditEntry { matched: 1, changed: 1, ..entry }
}
