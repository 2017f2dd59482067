//! Webhook endpoints and deliveries.

use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, Utc};
use handover_events::{EventId, Json, TenantId};
use handover_outbox::ports::{
    AttemptCounts, BodyForm, EndpointHealth, EndpointSecret, WebhookAttempt, WebhookDelivery, WebhookEndpoint,
};
use handover_outbox::webhooks::{EndpointDetails, OfferedType, Recovered, ShownDelivery};
use serde::Serialize;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Listed;
use super::time::{Time, json_or_text};
use crate::openapi::kinds;
use crate::openapi::webhooks::{body_example, body_schema};

crate::views! {
    /// A webhook endpoint.
    pub WebhookView as Webhook {
        endpoint_id: String = kinds::WebhookId,
        tenant_id: TenantId,
        url: String,
        description: Option<String>,
        event_types: Vec<String>,
        ordered: bool,
        /// Whether the whole payload is sent.
        full: bool,
        /// Whether personal data is not masked.
        unmasked: bool,
        asymmetric: bool,
        per_second: Option<u32>,
        max_in_flight: u32,
        /// Names of the static request headers.
        header_names: Vec<String>,
        /// The valid secrets, the current one first.
        secrets: Vec<SecretView>,
        /// With `asymmetric`: public keys that verify the signatures `v1a`.
        public_keys: Vec<String>,
        status: &'static str = kinds::WebhookStatus,
        disabled_reason: Option<String>,
        health: HealthView,
        create_time: Time,
        update_time: Time,
    }

    SecretView as WebhookSecret {
        public_key: String,
        /// Null for the current secret.
        valid_until: Option<Time>,
    }

    HealthView as WebhookHealth {
        /// Time of the first failed attempt since the last successful one.
        failing_since: Option<Time>,
        /// Number of failed attempts since then.
        failures: u32,
        /// Time of the last successful attempt, up to a minute too early.
        last_success: Option<Time>,
        /// No attempt starts before this time.
        paused_until: Option<Time>,
        /// Share of the attempts of the last 24 hours that succeeded, 0 to 1; null in lists, and if there were none.
        #[serde(rename = "successRate24h")]
        success_rate: Option<f64>,
        /// Whether deliveries are waiting; null in lists.
        has_pending: Option<bool>,
    }
}

/// A webhook endpoint with a new secret.
#[derive(Debug, Serialize)]
pub struct WebhookWithSecretView {
    #[serde(flatten)]
    endpoint: WebhookView,
    secret: Option<ShownSecret>,
}

/// A secret in a response.
#[derive(Serialize)]
#[serde(transparent)]
struct ShownSecret(String);

impl fmt::Debug for ShownSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShownSecret(..)")
    }
}

impl PartialSchema for WebhookWithSecretView {
    fn schema() -> RefOr<Schema> {
        let mut schema = WebhookView::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let secret = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
                .pattern(Some("^whsec_"))
                .description(Some("The new secret. It is shown once: a repeated request gets null."));
            object.description = Some("A webhook endpoint with a new secret.".to_owned());
            object.properties.insert("secret".to_owned(), secret.into());
            object.required.push("secret".to_owned());
        }
        schema
    }
}

impl ToSchema for WebhookWithSecretView {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("WebhookWithSecret")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        WebhookView::schemas(schemas);
    }
}

impl Listed for WebhookView {
    const COLUMNS: &'static [&'static str] = &["endpointId", "url", "eventTypes", "status", "disabledReason"];
}

impl WebhookView {
    /// `now` decides which secrets are valid.
    pub fn new(endpoint: WebhookEndpoint, now: DateTime<Utc>) -> WebhookView {
        let mut secrets = endpoint.secrets;
        secrets.retain(|secret| secret.valid_until.is_none_or(|until| until > now));
        let public_keys = secrets.iter().map(|secret| secret.public_key.clone());
        WebhookView {
            endpoint_id: endpoint.id.to_string(),
            tenant_id: endpoint.tenant,
            url: endpoint.url,
            description: endpoint.description,
            event_types: endpoint.event_types,
            ordered: endpoint.is_ordered,
            full: endpoint.body_form != BodyForm::Thin,
            unmasked: endpoint.body_form == BodyForm::Unmasked,
            asymmetric: endpoint.signs_asymmetrically,
            per_second: endpoint.per_second,
            max_in_flight: endpoint.max_in_flight,
            header_names: endpoint.headers.map(|headers| headers.names).unwrap_or_default(),
            public_keys: if endpoint.signs_asymmetrically { public_keys.collect() } else { Vec::new() },
            secrets: secrets.into_iter().map(SecretView::from).collect(),
            status: endpoint.status.as_str(),
            disabled_reason: endpoint.disabled_reason,
            health: HealthView::from(endpoint.health),
            create_time: Time(endpoint.create_time),
            update_time: Time(endpoint.update_time),
        }
    }

    /// With the numbers of the attempts; `now` decides which secrets are valid.
    pub fn with_details(details: EndpointDetails, now: DateTime<Utc>) -> WebhookView {
        let mut view = WebhookView::new(details.endpoint, now);
        view.health.success_rate = success_rate(details.last_day);
        view.health.has_pending = Some(details.has_pending);
        view
    }
}

impl WebhookWithSecretView {
    /// `secret` is `None` in a stored copy of the response.
    pub fn new(
        endpoint: WebhookEndpoint,
        now: DateTime<Utc>,
        secret: Option<String>,
    ) -> WebhookWithSecretView {
        WebhookWithSecretView { endpoint: WebhookView::new(endpoint, now), secret: secret.map(ShownSecret) }
    }
}

impl From<EndpointSecret> for SecretView {
    fn from(secret: EndpointSecret) -> SecretView {
        SecretView { public_key: secret.public_key, valid_until: secret.valid_until.map(Time) }
    }
}

impl From<EndpointHealth> for HealthView {
    fn from(health: EndpointHealth) -> HealthView {
        HealthView {
            failing_since: health.failing_since.map(Time),
            failures: health.failures,
            last_success: health.last_success.map(Time),
            paused_until: health.paused_until.map(Time),
            success_rate: None,
            has_pending: None,
        }
    }
}

/// Share of the successful attempts, with four decimals.
fn success_rate(AttemptCounts { delivered, failed }: AttemptCounts) -> Option<f64> {
    let all = delivered.saturating_add(failed);
    let share = delivered.saturating_mul(10_000).checked_div(all)?;
    u32::try_from(share).ok().map(|share| f64::from(share) / 10_000.0)
}

crate::views! {
    /// A delivery of an event to a webhook endpoint.
    pub WebhookDeliveryView as WebhookDelivery {
        delivery_id: i64,
        endpoint_id: String = kinds::WebhookId,
        tenant_id: TenantId,
        event_id: EventId,
        /// 0, or the number of the redelivery that an operator asked for.
        redelivery: u32,
        r#type: String,
        state: &'static str = kinds::DeliveryState,
        /// Time of the next attempt; while an attempt runs, the time at which another process may begin one.
        due_time: Time,
        /// Number of failed attempts since the delivery was written or sent again.
        failed_attempts: u32,
        last_status: Option<u16> = Option<kinds::HttpStatus>,
        last_error: Option<String>,
        create_time: Time,
        settle_time: Option<Time>,
        /// The body of every attempt; null in lists.
        body: Option<Json> = kinds::Json,
        /// The attempts, the oldest first; null in lists.
        attempts: Option<Vec<AttemptView>>,
    }

    AttemptView as WebhookAttempt {
        time: Time,
        duration_ms: i64,
        outcome: &'static str = kinds::AttemptOutcome,
        status: Option<u16> = Option<kinds::HttpStatus>,
        error: Option<String>,
        /// Beginning of the response; masked for callers without the role `pii`.
        response: Option<String>,
    }
}

/// A delivery in a list.
impl Listed for WebhookDeliveryView {
    const COLUMNS: &'static [&'static str] =
        &["deliveryId", "eventId", "type", "state", "failedAttempts", "lastStatus", "lastError"];
}

impl From<WebhookDelivery> for WebhookDeliveryView {
    fn from(delivery: WebhookDelivery) -> WebhookDeliveryView {
        WebhookDeliveryView {
            delivery_id: delivery.id,
            endpoint_id: delivery.endpoint.to_string(),
            tenant_id: delivery.tenant,
            event_id: delivery.event_id,
            redelivery: delivery.redelivery,
            r#type: delivery.event_type,
            state: delivery.state.as_str(),
            due_time: Time(delivery.due_time),
            failed_attempts: delivery.attempts,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            create_time: Time(delivery.create_time),
            settle_time: delivery.settle_time.map(Time),
            body: None,
            attempts: None,
        }
    }
}

impl From<ShownDelivery> for WebhookDeliveryView {
    fn from(ShownDelivery { delivery, attempts }: ShownDelivery) -> WebhookDeliveryView {
        let body = json_or_text(delivery.body.clone());
        let attempts = attempts.into_iter().map(AttemptView::from).collect();
        WebhookDeliveryView {
            body: Some(body),
            attempts: Some(attempts),
            ..WebhookDeliveryView::from(delivery)
        }
    }
}

impl From<WebhookAttempt> for AttemptView {
    fn from(attempt: WebhookAttempt) -> AttemptView {
        AttemptView {
            time: Time(attempt.at),
            duration_ms: attempt.duration_ms,
            outcome: attempt.outcome.as_str(),
            status: attempt.status,
            error: attempt.error,
            response: attempt.response,
        }
    }
}

crate::views! {
    /// An event type that webhook endpoints can ask for.
    pub OfferedTypeView as WebhookEventType {
        name: String,
        summary: String,
        /// JSON Schema of the bodies.
        schema: serde_json::Value = kinds::Json,
        /// An example of a body.
        example: serde_json::Value = kinds::Json,
    }

    /// Result of a recovery.
    pub RecoveredView as WebhookRecovery {
        dry_run: bool,
        /// Number of `DEAD` deliveries that are sent again.
        resent: u64,
        /// Number of created deliveries.
        created: u64,
        /// Whether more remain: repeat the call with the cursor. Events can remain although none were found.
        more: bool,
        next_cursor: Option<String>,
    }
}

impl From<&OfferedType> for OfferedTypeView {
    fn from(offered: &OfferedType) -> OfferedTypeView {
        OfferedTypeView {
            name: offered.name.clone(),
            summary: offered.summary.clone(),
            schema: body_schema(offered),
            example: body_example(offered),
        }
    }
}

impl From<Recovered> for RecoveredView {
    fn from(Recovered { dry_run, resent, created, more, next }: Recovered) -> RecoveredView {
        RecoveredView { dry_run, resent, created, more, next_cursor: next.map(|id| id.to_string()) }
    }
}
