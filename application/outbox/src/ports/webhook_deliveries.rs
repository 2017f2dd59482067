//! Deliveries of events to endpoints of webhooks, and the attempts at each delivery.

use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};

use super::endpoint_id::{EndpointId, EndpointKey};
use super::webhook_capacity::WebhookCapacity;
use super::webhook_endpoints::{BodyForm, WebhookEndpoint};

/// State of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryState {
    /// Not delivered yet.
    Pending,
    /// The receiver answered 2xx.
    Delivered,
    /// No attempt follows unless an operator asks for it.
    Dead,
    /// The endpoint was deleted.
    Cancelled,
}

impl DeliveryState {
    /// Every state.
    pub const ALL: &'static [DeliveryState] =
        &[DeliveryState::Pending, DeliveryState::Delivered, DeliveryState::Dead, DeliveryState::Cancelled];

    /// Name of the state in columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Pending => "PENDING",
            DeliveryState::Delivered => "DELIVERED",
            DeliveryState::Dead => "DEAD",
            DeliveryState::Cancelled => "CANCELLED",
        }
    }

    /// Returns the state with this name, if there is one.
    pub fn named(name: &str) -> Option<DeliveryState> {
        DeliveryState::ALL.iter().copied().find(|state| state.as_str() == name)
    }
}

/// A delivery to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhookDelivery {
    /// Endpoint that gets the event.
    pub endpoint: EndpointId,
    /// Tenant of the endpoint.
    pub tenant: TenantId,
    /// Event.
    pub event_id: EventId,
    /// 0, or the number of the redelivery.
    pub redelivery: u32,
    /// Type of the event as receivers know it: its routing key.
    pub event_type: String,
    /// Aggregate of the event: events with the same key are sent in order to an ordered endpoint.
    pub order_key: String,
    /// Body of every attempt.
    pub body: String,
    /// Content of the body.
    pub body_form: BodyForm,
    /// Reason why the delivery is `DEAD` from the beginning, if it is.
    pub dead_because: Option<String>,
    /// Time of the write, and of the first attempt.
    pub at: DateTime<Utc>,
}

/// A delivery of an event to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// Id of the row; cursor for paging. The deliveries of an aggregate have ids in the order of its events.
    pub id: i64,
    /// Endpoint that gets the event.
    pub endpoint: EndpointId,
    /// Tenant of the endpoint.
    pub tenant: TenantId,
    /// Event.
    pub event_id: EventId,
    /// 0, or the number of the redelivery.
    pub redelivery: u32,
    /// Type of the event as receivers know it: its routing key.
    pub event_type: String,
    /// See [`NewWebhookDelivery::order_key`].
    pub order_key: String,
    /// Body of every attempt.
    pub body: String,
    /// Content of the body, whatever the endpoint gets now. A delivery that a version without this value wrote is
    /// [`BodyForm::Unmasked`], because its body may contain personal data.
    pub body_form: BodyForm,
    /// State.
    pub state: DeliveryState,
    /// Time of the next attempt; for a claimed delivery, the end of the claim.
    pub due_time: DateTime<Utc>,
    /// The current claim.
    pub claim: Option<ClaimId>,
    /// Number of claims that ended without a recorded outcome since the last recorded one, with the current claim.
    pub claims: u32,
    /// Number of failed attempts since the delivery was written or sent again.
    pub attempts: u32,
    /// HTTP status of the last response.
    pub last_status: Option<u16>,
    /// Error of the last failed attempt, or the reason why the delivery is `DEAD`.
    pub last_error: Option<String>,
    /// Time of the write.
    pub create_time: DateTime<Utc>,
    /// Time at which the delivery became `DELIVERED`, `DEAD` or `CANCELLED`.
    pub settle_time: Option<DateTime<Utc>>,
}

impl WebhookDelivery {
    /// Key of its endpoint.
    pub fn endpoint_key(&self) -> EndpointKey {
        EndpointKey { tenant: self.tenant, id: self.endpoint }
    }
}

/// Identifies one claim of one process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub String);

/// Request for deliveries that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookClaim {
    /// Id of this claim, never used before, except by an earlier call of a repeated claim.
    pub id: ClaimId,
    /// Current time.
    pub now: DateTime<Utc>,
    /// End of the claim: after this time, another process may claim the deliveries.
    pub until: DateTime<Utc>,
    /// Maximum number of deliveries.
    pub limit: u32,
    /// Capacity of the process.
    pub capacity: WebhookCapacity,
    /// Whether an earlier call with this id may have been committed.
    pub is_repeated: bool,
}

/// A delivery that this process must attempt before its claim ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// Delivery, with the claim.
    pub delivery: WebhookDelivery,
    /// Its endpoint.
    pub endpoint: WebhookEndpoint,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver answered 2xx.
    Delivered,
    /// The receiver answered something else, or nothing.
    Failed,
    /// The process stopped. The attempt is not counted.
    Interrupted,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: &'static [AttemptOutcome] =
        &[AttemptOutcome::Delivered, AttemptOutcome::Failed, AttemptOutcome::Interrupted];

    /// Name of the outcome in columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttemptOutcome::Delivered => "DELIVERED",
            AttemptOutcome::Failed => "FAILED",
            AttemptOutcome::Interrupted => "INTERRUPTED",
        }
    }

    /// Returns the outcome with this name, if there is one.
    pub fn named(name: &str) -> Option<AttemptOutcome> {
        AttemptOutcome::ALL.iter().copied().find(|outcome| outcome.as_str() == name)
    }
}

/// One attempt at a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookAttempt {
    /// Begin of the attempt.
    pub at: DateTime<Utc>,
    /// Duration in milliseconds.
    pub duration_ms: i64,
    /// Outcome.
    pub outcome: AttemptOutcome,
    /// HTTP status of the response.
    pub status: Option<u16>,
    /// Why the attempt failed.
    pub error: Option<String>,
    /// Beginning of the response, with control characters escaped.
    pub response: Option<String>,
}

/// State of a delivery after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterAttempt {
    /// The delivery is `DELIVERED`.
    Delivered,
    /// The attempt failed; the next one is due at this time.
    Retry(DateTime<Utc>),
    /// The attempt failed, and none follows.
    Dead,
    /// The attempt is not counted; the delivery is due at this time.
    Released(DateTime<Utc>),
}

/// Result of a claimed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledDelivery {
    /// Id of the delivery.
    pub delivery: i64,
    /// Its endpoint.
    pub endpoint: EndpointKey,
    /// The claim under which the attempt was made.
    pub claim: ClaimId,
    /// The attempt; `None` if nothing was sent, because earlier claims ended without a result or the request could not be
    /// signed.
    pub attempt: Option<WebhookAttempt>,
    /// State after the attempt.
    pub after: AfterAttempt,
    /// Error for the delivery; `None` keeps the last one.
    pub error: Option<String>,
    /// Time of the record.
    pub at: DateTime<Utc>,
}

/// Selects deliveries of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries of events of this type (routing key).
    pub event_type: Option<String>,
    /// Only deliveries whose last response had this HTTP status.
    pub status: Option<u16>,
    /// Only deliveries whose body has this content.
    pub body_form: Option<BodyForm>,
    /// Only deliveries written at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only deliveries written before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only deliveries with an id above this one: bounds the number of deliveries that a page without an index reads.
    pub above_id: Option<i64>,
}

/// Selects the `DEAD` deliveries of an endpoint that can be sent again: those that have a body and no later redelivery of
/// their event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadDeliveries {
    /// Endpoint.
    pub endpoint: EndpointKey,
    /// Only deliveries written at or after this time.
    pub from: DateTime<Utc>,
    /// Only deliveries written before this time.
    pub to: DateTime<Utc>,
    /// Only deliveries with ([`BodyForm::Unmasked`]) or without an unmasked payload.
    pub is_unmasked: Option<bool>,
}

/// Numbers of attempts at an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Successful attempts.
    pub delivered: u64,
    /// Failed attempts.
    pub failed: u64,
}

/// State of all webhooks together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookCounts {
    /// Pending deliveries of endpoints that are not deleted.
    pub pending: u64,
    /// `DEAD` deliveries of endpoints that are not deleted, without a later redelivery of the event.
    pub dead: u64,
    /// Endpoints that were disabled.
    pub disabled_endpoints: u64,
    /// Those of them whose last attempt had failed ([`EndpointHealth::failing_since`](super::EndpointHealth::failing_since)): they were disabled automatically, or
    /// while they were failing.
    pub disabled_failing: u64,
    /// Earliest due time of the pending deliveries of enabled endpoints that are not paused, except those that wait for an
    /// earlier delivery of their aggregate.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// Selects deliveries to delete, smallest id first ([`delete_webhook_deliveries`](super::WebhookRepo::delete_webhook_deliveries)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldDeliveries {
    /// Only deliveries with a greater id.
    pub after: i64,
    /// Only deliveries that ended before this time. The first delivery that was written at or after it ends the examination.
    pub before: DateTime<Utc>,
    /// Maximum number of examined deliveries.
    pub limit: u32,
}

/// Deliveries that were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeletedDeliveries {
    /// Number of deliveries.
    pub deleted: u64,
    /// Id of the last examined delivery; `None`: fewer than [`OldDeliveries::limit`] were left to examine.
    pub last: Option<i64>,
}
