//! Records the results of attempts: deliveries, health of endpoints, and the events about both, in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, TenantId};
use tracing::{error, warn};

use super::events::{Announcement, EndpointDisabled, trace_of};
use crate::metrics::{WEBHOOK_DEAD, WEBHOOK_DISABLED, WEBHOOK_FAILING, append, count_on_commit};
use crate::operations::{Action, Operator};
use crate::ports::{
    AfterAttempt, AttemptOutcome, AuditEntry, EndpointHealth, EndpointId, EndpointKey, EndpointStatus,
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
    /// End of the claim.
    pub(super) claim_end: DateTime<Utc>,
    /// End of the pause that the receiver asked for.
    pub(super) pause: Option<DateTime<Utc>>,
    /// The URL whose receiver answered that the endpoint does not exist any more.
    pub(super) gone: Option<String>,
    /// Ids of the events that this result may announce, chosen before the first attempt at the unit of work.
    pub(super) announced_as: EventId,
    pub(super) disabled_as: EventId,
}

impl Recording {
    fn outcome(&self) -> Option<AttemptOutcome> {
        self.settled.attempt.as_ref().map(|attempt| attempt.outcome)
    }

    /// Whether the result can change the health of its endpoint.
    fn has_effect(&self) -> bool {
        match self.outcome() {
            Some(AttemptOutcome::Delivered | AttemptOutcome::Failed) => true,
            Some(AttemptOutcome::Interrupted) | None => false,
        }
    }

    /// Whether the result changes this health of its endpoint.
    fn changes(&self, health: &EndpointHealth) -> bool {
        match self.outcome() {
            Some(AttemptOutcome::Delivered) => {
                let is_stale =
                    |last: DateTime<Utc>| self.settled.at.signed_duration_since(last) >= SUCCESS_RESOLUTION;
                health.failing_since.is_some() || health.last_success.is_none_or(is_stale)
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

/// Records the results in one unit of work. A result whose claim has ended has no effect.
pub(super) async fn record(
    tx: &Transactor,
    recordings: Vec<Recording>,
    max_retry_count: u32,
) -> Result<(), StoreError> {
    let recordings = of_latest_claims(recordings);
    with_tx(tx, Job { recordings, max_retry_count }, |unit, job, _| {
        Box::pin(async move { job.run(unit.outbox()).await })
    })
    .await
}

/// One result per delivery: that of its latest claim. The others have ended.
fn of_latest_claims(recordings: Vec<Recording>) -> Vec<Recording> {
    let mut latest: BTreeMap<i64, Recording> = BTreeMap::new();
    for recording in recordings {
        match latest.get(&recording.settled.delivery) {
            Some(other) if other.claim_end >= recording.claim_end => {}
            Some(_) | None => drop(latest.insert(recording.settled.delivery, recording)),
        }
    }
    let mut recordings: Vec<Recording> = latest.into_values().collect();
    recordings.sort_by_key(|recording| recording.settled.at);
    recordings
}

impl Job {
    async fn run(&self, unit: &mut dyn OutboxUnit) -> Result<(), StoreError> {
        // Endpoints are locked in the order of their ids, and before their deliveries.
        let endpoints = self.lock_changed(unit).await?;
        let settled: Vec<SettledDelivery> = self.recordings.iter().map(|it| it.settled.clone()).collect();
        let recorded: BTreeSet<i64> = unit.settle_webhook_deliveries(&settled).await?.into_iter().collect();
        let recorded: Vec<&Recording> =
            self.recordings.iter().filter(|it| recorded.contains(&it.settled.delivery)).collect();
        let mut events = Vec::new();
        for endpoint in endpoints {
            let of_endpoint = |it: &&Recording| it.settled.endpoint == endpoint.key() && it.has_effect();
            let recorded: Vec<&Recording> = recorded.iter().copied().filter(of_endpoint).collect();
            if !recorded.is_empty() {
                events.extend(self.update(unit, endpoint, recorded).await?);
            }
        }
        for recording in recorded {
            if recording.settled.after == AfterAttempt::Dead {
                events.extend(self.announce_dead(unit, recording).await?);
            }
        }
        if events.is_empty() { Ok(()) } else { append(unit, &events).await }
    }

    /// Locks the endpoints whose health these results change. Most results are successes of healthy endpoints, which change
    /// nothing.
    async fn lock_changed(&self, unit: &mut dyn OutboxUnit) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let with_effect = || self.recordings.iter().filter(|recording| recording.has_effect());
        let ids: BTreeSet<EndpointId> =
            with_effect().map(|recording| recording.settled.endpoint.id).collect();
        let ids: Vec<EndpointId> = ids.into_iter().collect();
        let health: BTreeMap<EndpointId, EndpointHealth> = if ids.is_empty() {
            BTreeMap::new()
        } else {
            unit.webhook_health(&ids).await?.into_iter().collect()
        };
        let changes = |recording: &&Recording| {
            health.get(&recording.settled.endpoint.id).is_some_and(|health| recording.changes(health))
        };
        let changed: BTreeMap<EndpointId, TenantId> = with_effect()
            .filter(changes)
            .map(|recording| (recording.settled.endpoint.id, recording.settled.endpoint.tenant))
            .collect();
        let mut locked = Vec::new();
        for (id, tenant) in changed {
            match unit.lock_webhook_endpoint(Some(tenant), id).await {
                Ok(endpoint) => locked.extend(endpoint),
                // Otherwise its results, and those of every endpoint in the group, would be repeated forever.
                Err(error @ StoreError::Corrupt { .. }) => {
                    error!(code = "webhook.endpoint-unreadable", endpointId = %id, %error, "[Webhooks] endpoint cannot be read; its health is not updated");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(locked)
    }

    /// Updates the health of an endpoint, and disables it if it does not exist any more or fails for too long.
    async fn update(
        &self,
        unit: &mut dyn OutboxUnit,
        endpoint: WebhookEndpoint,
        recordings: Vec<&Recording>,
    ) -> Result<Option<NewEvent>, StoreError> {
        let id = endpoint.id;
        let mut health = endpoint.health.clone();
        let mut disabled = None;
        for recording in recordings {
            let failures = health.failures;
            recording.apply(&mut health);
            if failures < FAILING_AFTER && health.failures == FAILING_AFTER {
                warn!(code = "webhook.endpoint-failing", endpointId = %id, failingSince = ?health.failing_since,
                    "[Webhooks] endpoint is failing: its last {FAILING_AFTER} attempts failed");
                count_on_commit(metrics::counter!(WEBHOOK_FAILING), 1);
            }
            let reason = if recording.gone.as_ref() == Some(&endpoint.url) {
                Some("the receiver answered 410 Gone")
            } else if is_hopeless(unit, endpoint.key(), &mut health, recording.settled.at).await? {
                Some("all attempts of 5 days failed")
            } else {
                None
            };
            if disabled.is_none() {
                disabled = reason.map(|reason| (reason, recording));
            }
        }
        unit.set_webhook_health(endpoint.key(), &health).await?;
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
        let at = recording.settled.at;
        let key = endpoint.key();
        let after = WebhookEndpoint {
            status: EndpointStatus::Disabled,
            disabled_reason: Some(reason.to_owned()),
            version: endpoint.version + 1,
            update_time: at,
            ..endpoint
        };
        unit.replace_webhook_endpoint(&after).await?.or_conflict("webhook endpoint")?;
        unit.audit(&disabled_entry(key, reason, recording)).await?;
        warn!(code = "webhook.endpoint-disabled", endpointId = %key.id, tenantId = %key.tenant, reason, "[Webhooks] [ALERT] endpoint disabled");
        count_on_commit(metrics::counter!(WEBHOOK_DISABLED), 1);
        let payload = EndpointDisabled { endpoint_id: key.id.0, reason: reason.to_owned() };
        self.announcement(&recording.disabled_as, key, at).of(&payload).map(Some)
    }

    /// The event about a dead delivery.
    async fn announce_dead(
        &self,
        unit: &mut dyn OutboxUnit,
        recording: &Recording,
    ) -> Result<Option<NewEvent>, StoreError> {
        let SettledDelivery { endpoint, delivery, at, error, .. } = &recording.settled;
        count_on_commit(metrics::counter!(WEBHOOK_DEAD), 1);
        let Some(row) = unit.webhook_delivery(*endpoint, *delivery).await? else { return Ok(None) };
        let announcement = self.announcement(&recording.announced_as, *endpoint, *at);
        announcement.dead(&row, error.clone().unwrap_or_default())
    }

    fn announcement(&self, id: &EventId, endpoint: EndpointKey, at: DateTime<Utc>) -> Announcement {
        Announcement { id: id.clone(), endpoint, at, max_retry_count: self.max_retry_count }
    }
}

/// Whether every attempt failed for so long that the endpoint is disabled. A success that was recorded at the same time as
/// the first failure did not see it: then the failures begin now.
async fn is_hopeless(
    unit: &mut dyn OutboxUnit,
    endpoint: EndpointKey,
    health: &mut EndpointHealth,
    at: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let Some(since) = health.failing_since.filter(|since| at.signed_duration_since(*since) >= MAX_FAILING)
    else {
        return Ok(false);
    };
    if unit.webhook_attempt_counts(endpoint, since).await?.delivered == 0 {
        return Ok(true);
    }
    health.failing_since = Some(at);
    health.failures = 1;
    Ok(false)
}

/// Audit entry of the dispatcher, which acts as an operator without a name of its own.
fn disabled_entry(endpoint: EndpointKey, reason: &str, recording: &Recording) -> AuditEntry {
    let dispatcher = Operator {
        name: "webhook-dispatcher".to_owned(),
        tenant: endpoint.tenant,
        sees_all_tenants: false,
        sees_personal_data: false,
        trace: Trace { trace_id: trace_of(endpoint.id), traceparent: None },
    };
    let selection = vec![
        ("endpointId".to_owned(), endpoint.id.to_string().into()),
        ("automatic".to_owned(), true.into()),
        ("cause".to_owned(), reason.into()),
    ];
    let action = Action { name: "webhooks.disable", selection, reason: None };
    let entry = action.entry(&dispatcher, (1, 1), recording.settled.at);
    AuditEntry { matched: 1, changed: 1, ..entry }
}
