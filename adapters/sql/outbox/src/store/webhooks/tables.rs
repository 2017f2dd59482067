//! The tables of webhooks.

use handover_outbox::ports::{
    AttemptOutcome, AttemptRate, BodyForm, ClaimId, DeliveryState, EndpointHeaders, EndpointHealth,
    EndpointId, EndpointKey, EndpointSecret, EndpointStatus, NewWebhookDelivery, Sealed, StoreError,
    WebhookAttempt, WebhookDelivery, WebhookEndpoint,
};
use serde_json::json;
use tracing::error;

use crate::row::{Fields, Row};
use crate::table::{Table, table};
use crate::value::{Value, parse_time, time_text};

table! {
    pub(super) EndpointTable("webhook_endpoints" by "id"),
    read row as WebhookEndpoint, write endpoint as &'a WebhookEndpoint;
    insert {
        id: (endpoint_id(row, "id"))("id" = endpoint.id.to_string()),
        tenant: id("tenant_id" = endpoint.tenant.get()),
        create_time: time("create_time" = endpoint.create_time),
        health: (health(row))(
            "failing_since" = endpoint.health.failing_since,
            "failures" = endpoint.health.failures,
            "last_success_time" = endpoint.health.last_success,
            "paused_until" = endpoint.health.paused_until
        ),
    }
    update {
        slot: opt_id("slot" = endpoint.slot.map(i64::from)),
        url: string("url" = &endpoint.url),
        description: opt_string("description" = &endpoint.description),
        event_types: (names(row, "event_types"))("event_types" = json!(endpoint.event_types).to_string()),
        is_ordered: flag("is_ordered" = endpoint.is_ordered),
        body_form: (known(row, "body_form", BodyForm::named))("body_form" = endpoint.body_form.as_str()),
        signs_asymmetrically: flag("signs_asymmetrically" = endpoint.signs_asymmetrically),
        per_second: opt_id("per_second" = endpoint.per_second.map(i64::from)),
        max_in_flight: count("max_in_flight" = endpoint.max_in_flight),
        headers: (headers(row))(
            "header_names" = endpoint.headers.as_ref().map(|headers| json!(headers.names).to_string()),
            "headers_sealed" = endpoint.headers.as_ref().map(|headers| headers.sealed.0.clone())
        ),
        secrets: (secrets(row))("secrets" = secrets_text(&endpoint.secrets)),
        status: (known(row, "status", EndpointStatus::named))("status" = endpoint.status.as_str()),
        disabled_reason: opt_string("disabled_reason" = &endpoint.disabled_reason),
        version: int("version" = endpoint.version),
        update_time: time("update_time" = endpoint.update_time),
    }
}

table! {
    pub(super) DeliveryTable("webhook_deliveries" by "id"),
    read row as WebhookDelivery, write new as &'a NewWebhookDelivery;
    insert {
        endpoint: (endpoint_id(row, "endpoint_id"))("endpoint_id" = new.endpoint.to_string()),
        tenant: id("tenant_id" = new.tenant.get()),
        event_id: named("event_id" = &new.event_id),
        redelivery: count("redelivery" = new.redelivery),
        event_type: string("event_type" = &new.event_type),
        order_key: string("order_key" = &new.order_key),
        body: string("body" = &new.body),
        body_form: (form(row))("body_form" = new.body_form.as_str()),
        state: (known(row, "state", DeliveryState::named))("state" = first_state(new).as_str()),
        due_time: time("due_time" = new.at),
        last_error: opt_string("last_error" = &new.dead_because),
        create_time: time("create_time" = new.at),
        settle_time: opt_time("settle_time" = new.dead_because.as_ref().map(|_| new.at)),
    }
    read {
        id: int("id"),
        claim: (claim(row))("claim_id"),
        claims: count("claims"),
        attempts: count("attempts"),
        last_status: opt_id("last_status"),
    }
}

/// An attempt as it is written.
#[derive(Clone, Copy)]
pub(super) struct NewAttempt<'a> {
    pub(super) delivery: i64,
    pub(super) endpoint: EndpointId,
    pub(super) attempt: &'a WebhookAttempt,
}

table! {
    pub(super) AttemptTable("webhook_attempts" by "id"),
    read row as WebhookAttempt, write new as NewAttempt<'a>;
    insert {
        duration_ms: int("duration_ms" = new.attempt.duration_ms),
        // The ids are written, but not read.
        at: (row.time("attempt_time"))(
            "attempt_time" = new.attempt.at,
            "delivery_id" = new.delivery,
            "endpoint_id" = new.endpoint.to_string()
        ),
        outcome: (known(row, "outcome", AttemptOutcome::named))("outcome" = new.attempt.outcome.as_str()),
        status: opt_id("status" = new.attempt.status.map(i64::from)),
        error: opt_string("error" = &new.attempt.error),
        response: opt_string("response" = &new.attempt.response),
    }
}

pub(super) fn endpoint_id(row: Fields<'_>, column: &'static str) -> Result<EndpointId, StoreError> {
    row.named(column).map(EndpointId)
}

/// Reads a row. One that cannot be read is logged and left out, so that it does not stop the webhooks of all tenants.
pub(super) fn readable<T: Table>(row: &Row) -> Result<Option<T::Row>, StoreError> {
    match T::read(row) {
        Err(error @ StoreError::Corrupt { .. }) => {
            error!(code = "webhook.row-unreadable", %error, "[Webhooks] row skipped: correct or delete it, then run `webhook recover --include-missing`");
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn claim(row: Fields<'_>) -> Result<Option<ClaimId>, StoreError> {
    Ok(row.opt_string("claim_id")?.map(ClaimId))
}

/// The content of a body. A process of a version without this column wrote NULL.
fn form(row: Fields<'_>) -> Result<BodyForm, StoreError> {
    match row.opt_text("body_form")? {
        None => Ok(BodyForm::Unmasked),
        Some(_) => known(row, "body_form", BodyForm::named),
    }
}

fn first_state(new: &NewWebhookDelivery) -> DeliveryState {
    if new.dead_because.is_some() { DeliveryState::Dead } else { DeliveryState::Pending }
}

/// Reads the name of a value.
fn known<T>(row: Fields<'_>, column: &'static str, named: fn(&str) -> Option<T>) -> Result<T, StoreError> {
    let name = row.text(column)?;
    named(name).ok_or_else(|| row.corrupt(column, format!("{name:?} is unknown")))
}

/// Reads a JSON array of texts.
fn names(row: Fields<'_>, column: &'static str) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(row.text(column)?).map_err(|error| row.corrupt(column, error))
}

pub(super) fn health(row: Fields<'_>) -> Result<EndpointHealth, StoreError> {
    Ok(EndpointHealth {
        failing_since: row.opt_time("failing_since")?,
        failures: row.count("failures")?,
        last_success: row.opt_time("last_success_time")?,
        paused_until: row.opt_time("paused_until")?,
    })
}

fn headers(row: Fields<'_>) -> Result<Option<EndpointHeaders>, StoreError> {
    let Some(sealed) = row.opt_string("headers_sealed")? else { return Ok(None) };
    Ok(Some(EndpointHeaders { names: names(row, "header_names")?, sealed: Sealed(sealed) }))
}

fn secrets_text(secrets: &[EndpointSecret]) -> String {
    let stored = secrets.iter().map(|secret| {
        json!({
            "sealed": secret.sealed.0,
            "publicKey": secret.public_key,
            "validUntil": secret.valid_until.map(time_text),
        })
    });
    serde_json::Value::from_iter(stored).to_string()
}

fn secrets(row: Fields<'_>) -> Result<Vec<EndpointSecret>, StoreError> {
    let corrupt = |why: &str| row.corrupt("secrets", why);
    let stored: Vec<serde_json::Value> =
        serde_json::from_str(row.text("secrets")?).map_err(|_| corrupt("the value is not a JSON array"))?;
    let text = |secret: &serde_json::Value, field: &str| secret[field].as_str().map(str::to_owned);
    let read = |secret: &serde_json::Value| {
        let until = secret["validUntil"].as_str().map(parse_time).transpose();
        Ok(EndpointSecret {
            sealed: Sealed(text(secret, "sealed").ok_or_else(|| corrupt("a secret has no field `sealed`"))?),
            public_key: text(secret, "publicKey")
                .ok_or_else(|| corrupt("a secret has no field `publicKey`"))?,
            valid_until: until.map_err(|_| corrupt("the field `validUntil` is not a timestamp"))?,
        })
    };
    stored.iter().map(read).collect()
}

/// The values of the health of an endpoint, in the order of `failing_since`, `failures`, `last_success_time` and
/// `paused_until`.
pub(super) fn health_values(health: &EndpointHealth) -> Vec<Value> {
    crate::value::values![health.failing_since, health.failures, health.last_success, health.paused_until]
}

/// Parameter for an endpoint.
pub(super) fn id_value(id: EndpointId) -> Value {
    Value::from(id.to_string())
}

/// Parameters for the id and the tenant of an endpoint.
pub(super) fn key_values(endpoint: EndpointKey) -> Vec<Value> {
    vec![id_value(endpoint.id), endpoint.tenant.get().into()]
}

/// A locked endpoint from which deliveries may be claimed.
pub(super) struct Opening {
    pub(super) endpoint: WebhookEndpoint,
    /// Number of attempts that may begin.
    pub(super) room: u32,
    /// The limit of attempts per second, if the endpoint has one.
    pub(super) rate: Option<AttemptRate>,
}
