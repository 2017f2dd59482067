//! Sample webhooks.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{
    AfterAttempt, AttemptOutcome, BodyForm, ClaimId, ClaimedDelivery, DeadDeliveries, EndpointHeaders,
    EndpointHealth, EndpointId, EndpointKey, EndpointSecret, EndpointStatus, NewWebhookDelivery, Sealed,
    SettledDelivery, WebhookAttempt, WebhookCapacity, WebhookClaim, WebhookEndpoint,
};
use uuid::Uuid;

use super::{event_id, later, start};

/// Id of a sample endpoint.
pub fn endpoint_id(number: u32) -> EndpointId {
    EndpointId(Uuid::from_u128(u128::from(number)))
}

/// Key of a sample endpoint of tenant 1.
pub fn endpoint_key(number: u32) -> EndpointKey {
    EndpointKey { tenant: TenantId::DEFAULT, id: endpoint_id(number) }
}

/// An enabled endpoint of tenant 1, with this number as slot and 10 concurrent attempts.
pub fn endpoint(number: u32) -> WebhookEndpoint {
    WebhookEndpoint {
        id: endpoint_id(number),
        tenant: TenantId::DEFAULT,
        slot: Some(number),
        url: "https://receiver.example/hooks".into(),
        description: None,
        event_types: vec!["book.*".into()],
        is_ordered: false,
        body_form: BodyForm::Thin,
        signs_asymmetrically: false,
        per_second: None,
        max_in_flight: 10,
        headers: None,
        secrets: vec![secret("current", None)],
        status: EndpointStatus::Enabled,
        disabled_reason: None,
        version: 1,
        create_time: start(),
        update_time: start(),
        health: EndpointHealth::default(),
    }
}

/// A secret that is used until this time.
pub fn secret(name: &str, valid_until: Option<DateTime<Utc>>) -> EndpointSecret {
    EndpointSecret { sealed: Sealed(name.to_owned()), public_key: format!("whpk_{name}"), valid_until }
}

/// Static request headers.
pub fn headers() -> EndpointHeaders {
    let names = vec!["authorization".to_owned(), "x-shop".to_owned()];
    EndpointHeaders { names, sealed: Sealed("headers".into()) }
}

/// A delivery of this event, written at [`start`]. Each event has an aggregate of its own.
pub fn delivery(endpoint: u32, event: &str) -> NewWebhookDelivery {
    NewWebhookDelivery {
        endpoint: endpoint_id(endpoint),
        tenant: TenantId::DEFAULT,
        event_id: event_id(event),
        redelivery: 0,
        event_type: "book.lent".into(),
        order_key: format!("Book/{event}"),
        body: format!("{{\"id\":\"{event}\"}}"),
        body_form: BodyForm::Thin,
        dead_because: None,
        at: start(),
    }
}

/// The `DEAD` deliveries of an endpoint that were written in the first second after [`start`].
pub fn dead_deliveries(endpoint: u32) -> DeadDeliveries {
    DeadDeliveries { endpoint: endpoint_key(endpoint), from: start(), to: later(1), is_unmasked: None }
}

/// A claim of at most 100 deliveries for one minute.
pub fn claim(id: &str, now: DateTime<Utc>) -> WebhookClaim {
    let until = now + TimeDelta::minutes(1);
    let capacity = WebhookCapacity::new(u32::MAX, &BTreeMap::new());
    WebhookClaim { id: ClaimId(id.to_owned()), now, until, limit: 100, capacity, is_repeated: false }
}

/// An attempt with this outcome and HTTP status.
pub fn attempt(outcome: AttemptOutcome, status: Option<u16>) -> WebhookAttempt {
    WebhookAttempt { at: start(), duration_ms: 12, outcome, status, error: None, response: None }
}

/// The result of a claimed delivery: an attempt with the outcome that fits the state after it.
pub fn settled(claimed: &ClaimedDelivery, after: AfterAttempt) -> SettledDelivery {
    let (outcome, status, error) = match after {
        AfterAttempt::Delivered => (AttemptOutcome::Delivered, Some(204), None),
        AfterAttempt::Retry(_) | AfterAttempt::Dead => (AttemptOutcome::Failed, Some(500), Some("HTTP 500")),
        AfterAttempt::Released(_) => (AttemptOutcome::Interrupted, None, None),
    };
    SettledDelivery {
        delivery: claimed.delivery.id,
        endpoint: claimed.endpoint.key(),
        claim: claimed.delivery.claim.clone().expect("a claimed delivery has a claim"),
        attempt: Some(attempt(outcome, status)),
        after,
        error: error.map(str::to_owned),
        at: later(1),
    }
}
