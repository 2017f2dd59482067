//! Operations on endpoints.
//!
//! **Invariant:** an operator sees and changes only endpoints of its own tenant, unless it may see all tenants; for every
//! other endpoint the result is the same as for one that does not exist.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{Json, TenantId};

use super::access::{lock, not_deleted, not_found};
use super::endpoints::{
    CheckedChange, DEFAULT_IN_FLIGHT, EndpointChange, InvalidEndpoint, MAX_ENDPOINTS, WebhookError,
};
use super::offer::Offer;
use super::sweep::MAX_CANCELLED;
use crate::event_id::uuid_v7;
use crate::operations::{Action, OperationError, Operator, Reason, changed_by_earlier_attempt, count};
use crate::outbox::Outbox;
use crate::ports::{
    AttemptCounts, AuditEntry, BodyForm, EndpointHealth, EndpointId, EndpointStatus, NewSecret, OutboxUnit,
    StoreError, WebhookEndpoint, WebhookTransport,
};
use crate::transaction::{Attempt, with_tx};

/// Everything that operations on webhooks need. Clones share it.
#[derive(Clone)]
pub struct Webhooks {
    /// Store, event types, clock.
    pub outbox: Outbox,
    /// The event types that endpoints can ask for.
    pub offer: Arc<Offer>,
    /// Checks URLs and encrypts secrets.
    pub transport: Arc<dyn WebhookTransport>,
    /// Time for which delivered and cancelled deliveries stay, as it is given to
    /// [`WebhookRetention`](super::WebhookRetention).
    pub keep: Duration,
}

/// A created endpoint, or one with a new secret.
#[derive(Debug, Clone)]
pub struct NewEndpoint {
    /// The endpoint.
    pub endpoint: WebhookEndpoint,
    /// Its secret (`whsec_...`); it is not shown again.
    pub secret: NewSecret,
}

/// An endpoint, the attempts of the last 24 hours, and whether deliveries are waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointDetails {
    /// The endpoint.
    pub endpoint: WebhookEndpoint,
    /// Numbers of attempts.
    pub last_day: AttemptCounts,
    /// Whether it has pending deliveries.
    pub has_pending: bool,
}

/// What a change does besides replacing the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    ResetHealth,
    CancelDeliveries,
    /// Refuses the change of this field while a delivery with an unmasked payload is pending.
    RefuseUnmasked(&'static str),
}

impl Webhooks {
    /// The tenant of a list: the requested one, otherwise the operator's own.
    fn tenant(operator: &Operator, asked: Option<TenantId>) -> Result<TenantId, OperationError> {
        Ok(operator.visible(asked)?.unwrap_or(operator.tenant))
    }

    /// Creates an endpoint of the operator's tenant, or of the requested one. `id` is chosen before the call is stored, so
    /// that a repeated call creates no second endpoint.
    pub async fn create(
        &self,
        operator: &Operator,
        tenant: Option<TenantId>,
        mut change: EndpointChange,
    ) -> Result<NewEndpoint, WebhookError> {
        let tenant = Webhooks::tenant(operator, tenant)?;
        let required = |field| InvalidEndpoint::new(field, "is required");
        let url = change.url.clone().ok_or_else(|| required("url"))?;
        let event_types = change.event_types.clone().ok_or_else(|| required("eventTypes"))?;
        change.body_form.get_or_insert(BodyForm::Thin);
        let now = self.outbox.now();
        let id = EndpointId(uuid_v7(now, self.outbox.random().as_ref()));
        let checked = change.check(&self.offer, self.transport.as_ref(), operator, id)?;
        let secret = self.transport.new_secret(id)?;
        let endpoint = WebhookEndpoint {
            id,
            tenant,
            slot: None,
            url,
            description: None,
            event_types,
            is_ordered: false,
            body_form: BodyForm::Thin,
            signs_asymmetrically: false,
            per_second: None,
            max_in_flight: DEFAULT_IN_FLIGHT,
            headers: None,
            secrets: vec![secret.stored.clone()],
            status: EndpointStatus::Enabled,
            disabled_reason: None,
            version: 1,
            create_time: now,
            update_time: now,
            health: EndpointHealth::default(),
        };
        let endpoint = checked.applied(operator, endpoint)?;
        let entry = audit(operator, "webhooks.create", id, tenant, checked.fields(), now);
        let endpoint = with_tx(&self.outbox.tx, (endpoint, entry), |unit, (endpoint, entry), _| {
            Box::pin(insert(unit.outbox(), endpoint, entry))
        })
        .await?;
        Ok(NewEndpoint { endpoint, secret })
    }

    /// The endpoints of a tenant that are not deleted, the oldest first.
    pub async fn list(
        &self,
        operator: &Operator,
        tenant: Option<TenantId>,
    ) -> Result<Vec<WebhookEndpoint>, WebhookError> {
        let tenant = Webhooks::tenant(operator, tenant)?;
        let endpoints = self.outbox.view().await?.outbox_view().webhook_endpoints(&[tenant]).await?;
        let selection = [("tenantId", Some(tenant.get().into()))];
        let read = Action::read("webhooks.list", selection);
        read.record(&self.outbox.tx, operator, Some(tenant), count(endpoints.len())).await?;
        Ok(endpoints)
    }

    /// An endpoint that the operator can see, also a deleted one.
    pub(super) async fn find(
        &self,
        operator: &Operator,
        id: EndpointId,
    ) -> Result<WebhookEndpoint, WebhookError> {
        let found =
            self.outbox.view().await?.outbox_view().webhook_endpoint(operator.only_tenant(), id).await?;
        found.ok_or_else(not_found)
    }

    /// Like [`Webhooks::find`]. Records the read of an endpoint that the operator cannot see.
    pub(super) async fn find_to_read(
        &self,
        name: &'static str,
        operator: &Operator,
        id: EndpointId,
    ) -> Result<WebhookEndpoint, WebhookError> {
        let found = self.find(operator, id).await;
        if matches!(found, Err(WebhookError::Operation(OperationError::NotFound { .. }))) {
            let selection = [("endpointId", Some(id.to_string().into()))];
            let read = Action::read_personal_data(name, operator, selection);
            read.record(&self.outbox.tx, operator, None, 0).await?;
        }
        found
    }

    /// An endpoint with the numbers of its attempts.
    pub async fn show(&self, operator: &Operator, id: EndpointId) -> Result<EndpointDetails, WebhookError> {
        let endpoint = self.find_to_read("webhooks.show", operator, id).await?;
        let since = self.outbox.now() - TimeDelta::hours(24);
        let mut view = self.outbox.view().await?;
        let last_day = view.outbox_view().webhook_attempt_counts(endpoint.key(), since).await?;
        let has_pending = view.outbox_view().has_pending_webhook_deliveries(endpoint.key(), None).await?;
        drop(view);
        self.record_read("webhooks.show", operator, &endpoint, Vec::new(), 1).await?;
        Ok(EndpointDetails { endpoint, last_day, has_pending })
    }

    /// Changes an endpoint. Deliveries that are waiting are sent to the new URL.
    pub async fn update(
        &self,
        operator: &Operator,
        id: EndpointId,
        change: EndpointChange,
    ) -> Result<WebhookEndpoint, WebhookError> {
        let checked = change.check(&self.offer, self.transport.as_ref(), operator, id)?;
        let fields = checked.fields();
        let effect = match checked.redirecting_field() {
            Some(field) if !operator.sees_personal_data => Effect::RefuseUnmasked(field),
            Some(_) | None => Effect::None,
        };
        let change = move |operator: &Operator, before, checked: &CheckedChange| {
            Ok(checked.applied(operator, before)?)
        };
        self.change(operator, ("webhooks.update", fields), id, checked, change, effect).await
    }

    /// Enables an endpoint: its deliveries are sent, also those written while it was disabled, and its failures are
    /// forgotten.
    pub async fn enable(&self, operator: &Operator, id: EndpointId) -> Result<WebhookEndpoint, WebhookError> {
        let change = |_: &Operator, before, (): &()| {
            Ok(WebhookEndpoint { status: EndpointStatus::Enabled, disabled_reason: None, ..before })
        };
        let action = ("webhooks.enable", Vec::new());
        self.change(operator, action, id, (), change, Effect::ResetHealth).await
    }

    /// Disables an endpoint: its deliveries are written, but not sent.
    pub async fn disable(
        &self,
        operator: &Operator,
        id: EndpointId,
        reason: Option<Reason>,
    ) -> Result<WebhookEndpoint, WebhookError> {
        let reason = reason.map_or_else(|| "disabled by an operator".to_owned(), |it| it.as_str().to_owned());
        let fields = vec![("reason".to_owned(), reason.as_str().into())];
        let change = |_: &Operator, before, reason: &String| {
            let disabled_reason = Some(reason.clone());
            Ok(WebhookEndpoint { status: EndpointStatus::Disabled, disabled_reason, ..before })
        };
        self.change(operator, ("webhooks.disable", fields), id, reason, change, Effect::None).await
    }

    /// Deletes an endpoint: its pending deliveries are cancelled, and its secrets are removed. Its deliveries stay visible.
    pub async fn delete(&self, operator: &Operator, id: EndpointId) -> Result<WebhookEndpoint, WebhookError> {
        let change = |_: &Operator, before, (): &()| {
            let status = EndpointStatus::Deleted;
            Ok(WebhookEndpoint { status, slot: None, secrets: Vec::new(), headers: None, ..before })
        };
        let action = ("webhooks.delete", Vec::new());
        self.change(operator, action, id, (), change, Effect::CancelDeliveries).await
    }

    /// An endpoint that the operator can see and that is not deleted.
    pub(super) async fn not_deleted(
        &self,
        operator: &Operator,
        id: EndpointId,
    ) -> Result<WebhookEndpoint, WebhookError> {
        not_deleted(self.find(operator, id).await?)
    }

    pub(super) async fn record_read(
        &self,
        name: &'static str,
        operator: &Operator,
        endpoint: &WebhookEndpoint,
        fields: Vec<(String, Json)>,
        matched: u64,
    ) -> Result<(), StoreError> {
        let mut read = Action::read_personal_data(
            name,
            operator,
            [("endpointId", Some(endpoint.id.to_string().into()))],
        );
        read.selection.extend(fields);
        read.record(&self.outbox.tx, operator, Some(endpoint.tenant), matched).await
    }

    /// Changes an endpoint in a unit of work with an audit entry.
    pub(super) async fn change<I, F>(
        &self,
        operator: &Operator,
        (name, fields): (&'static str, Vec<(String, Json)>),
        id: EndpointId,
        input: I,
        change: F,
        effect: Effect,
    ) -> Result<WebhookEndpoint, WebhookError>
    where
        I: Send + Sync + 'static,
        F: Fn(&Operator, WebhookEndpoint, &I) -> Result<WebhookEndpoint, WebhookError>
            + Send
            + Sync
            + 'static,
    {
        let now = self.outbox.now();
        let job = (operator.clone(), input, fields);
        with_tx(&self.outbox.tx, (job, change), move |unit, ((operator, input, fields), change), attempt| {
            Box::pin(async move {
                let unit = unit.outbox();
                let before = lock(unit, operator, id).await?;
                let entry = audit(operator, name, id, before.tenant, fields.clone(), now);
                if is_done(unit, attempt, &entry).await? {
                    return Ok(before);
                }
                if before.status == EndpointStatus::Deleted {
                    return Err(not_found());
                }
                let version = before.version + 1;
                let after = WebhookEndpoint { version, update_time: now, ..change(operator, before, input)? };
                unit.replace_webhook_endpoint(&after).await?.or_conflict("webhook endpoint")?;
                let after = carry_out(unit, effect, after, now).await?;
                unit.audit(&AuditEntry { matched: 1, changed: 1, ..entry }).await?;
                Ok(after)
            })
        })
        .await
    }
}

async fn is_done(
    unit: &mut dyn OutboxUnit,
    attempt: Attempt,
    entry: &AuditEntry,
) -> Result<bool, StoreError> {
    Ok(changed_by_earlier_attempt(unit, attempt, entry).await?.is_some())
}

async fn carry_out(
    unit: &mut dyn OutboxUnit,
    effect: Effect,
    after: WebhookEndpoint,
    now: DateTime<Utc>,
) -> Result<WebhookEndpoint, WebhookError> {
    match effect {
        Effect::None => Ok(after),
        Effect::ResetHealth => {
            let last_success = after.health.last_success;
            let health = EndpointHealth { last_success, ..EndpointHealth::default() };
            unit.set_webhook_health(after.key(), &health).await?;
            Ok(WebhookEndpoint { health, ..after })
        }
        Effect::CancelDeliveries => {
            // The sweep cancels what is left.
            unit.cancel_webhook_deliveries(Some(after.key()), None, now, MAX_CANCELLED).await?;
            Ok(after)
        }
        Effect::RefuseUnmasked(field) => {
            if !unit.has_pending_webhook_deliveries(after.key(), Some(BodyForm::Unmasked)).await? {
                return Ok(after);
            }
            let why = "can be changed only by an operator who may see personal data (pii) while deliveries with unmasked \
                       payloads are pending";
            Err(InvalidEndpoint::new(field, why).into())
        }
    }
}

/// Inserts an endpoint into the smallest free slot of its tenant.
async fn insert(
    unit: &mut dyn OutboxUnit,
    endpoint: &WebhookEndpoint,
    entry: &AuditEntry,
) -> Result<WebhookEndpoint, WebhookError> {
    let others = unit.webhook_endpoints(&[endpoint.tenant]).await?;
    if let Some(created) = others.iter().find(|other| other.id == endpoint.id) {
        // An earlier attempt was committed.
        return Ok(created.clone());
    }
    let is_free = |slot: &u32| others.iter().all(|other| other.slot != Some(*slot));
    let slot = (1..=MAX_ENDPOINTS).find(is_free).ok_or(WebhookError::TooManyEndpoints)?;
    let endpoint = WebhookEndpoint { slot: Some(slot), ..endpoint.clone() };
    unit.insert_webhook_endpoint(&endpoint).await?;
    unit.audit(&AuditEntry { matched: 1, changed: 1, ..entry.clone() }).await?;
    Ok(endpoint)
}

/// Audit entry of a change of an endpoint.
pub(super) fn audit(
    operator: &Operator,
    name: &'static str,
    endpoint: EndpointId,
    tenant: TenantId,
    fields: Vec<(String, Json)>,
    at: DateTime<Utc>,
) -> AuditEntry {
    let mut selection = vec![("endpointId".to_owned(), endpoint.to_string().into())];
    selection.extend(fields);
    let action = Action { name, selection, reason: None };
    AuditEntry { tenant, ..action.entry(operator, (1, 1), at) }
}
