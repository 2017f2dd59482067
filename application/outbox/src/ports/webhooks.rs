//! Webhooks: endpoints of tenants, the deliveries of events to them, and the attempts at each delivery.
//!
//! **Invariant:** an event has at most one delivery per endpoint, apart from redeliveries that an operator asked for.
//!
//! **Invariant:** the outcome of an attempt is recorded only while its claim is the current one, so that a process that
//! was frozen cannot overwrite the result of another.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, TenantId};

use super::endpoint_id::{EndpointId, EndpointKey};
use super::error::{Changed, StoreError};
use super::webhook_capacity::WebhookCapacity;

/// Status of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointStatus {
    /// Deliveries are sent.
    Enabled,
    /// Deliveries are written, but not sent until the endpoint is enabled.
    Disabled,
    /// The endpoint exists only because of its deliveries.
    Deleted,
}

impl EndpointStatus {
    /// Every status.
    pub const ALL: &'static [EndpointStatus] =
        &[EndpointStatus::Enabled, EndpointStatus::Disabled, EndpointStatus::Deleted];

    /// Name of the status in columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            EndpointStatus::Enabled => "ENABLED",
            EndpointStatus::Disabled => "DISABLED",
            EndpointStatus::Deleted => "DELETED",
        }
    }

    /// Returns the status with this name, if there is one.
    pub fn named(name: &str) -> Option<EndpointStatus> {
        EndpointStatus::ALL.iter().copied().find(|status| status.as_str() == name)
    }
}

/// Content of the bodies that an endpoint gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// Ids, states, amounts and times.
    Thin,
    /// The whole payload, with personal data masked.
    Full,
    /// The whole payload.
    Unmasked,
}

impl BodyForm {
    /// Every form.
    pub const ALL: &'static [BodyForm] = &[BodyForm::Thin, BodyForm::Full, BodyForm::Unmasked];

    /// Name of the form in columns.
    pub const fn as_str(self) -> &'static str {
        match self {
            BodyForm::Thin => "THIN",
            BodyForm::Full => "FULL",
            BodyForm::Unmasked => "UNMASKED",
        }
    }

    /// Returns the form with this name, if there is one.
    pub fn named(name: &str) -> Option<BodyForm> {
        BodyForm::ALL.iter().copied().find(|form| form.as_str() == name)
    }
}

/// Encrypted text. Only the adapter that encrypted it can read it ([`super::WebhookTransport`]).
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(pub String);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed(..)")
    }
}

/// A secret of an endpoint, with the key pair for asymmetric signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSecret {
    /// The secret and the private key.
    pub sealed: Sealed,
    /// The public key, in the form of the Standard Webhooks specification: `whpk_...`.
    pub public_key: String,
    /// Time until which requests are also signed with this secret; `None` for the current secret.
    pub valid_until: Option<DateTime<Utc>>,
}

/// Static request headers of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointHeaders {
    /// Names in lower case, sorted.
    pub names: Vec<String>,
    /// Names and values.
    pub sealed: Sealed,
}

/// Results of the attempts at an endpoint. Changed by the dispatcher, not by operators, except that enabling the endpoint
/// resets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Time of the first failed attempt since the last successful one, or since the endpoint was enabled.
    pub failing_since: Option<DateTime<Utc>>,
    /// Number of failed attempts since then.
    pub failures: u32,
    /// Time of a successful attempt; at most a minute before the last one.
    pub last_success: Option<DateTime<Utc>>,
    /// No attempt starts before this time.
    pub paused_until: Option<DateTime<Utc>>,
}

/// An endpoint: a URL of a tenant to which events are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// Id.
    pub id: EndpointId,
    /// Tenant whose events are sent.
    pub tenant: TenantId,
    /// Number that is unique among the tenant's endpoints, so that concurrent calls cannot exceed the quota. `None` for
    /// a deleted endpoint.
    pub slot: Option<u32>,
    /// URL that receives the requests.
    pub url: String,
    /// Description by the operator.
    pub description: Option<String>,
    /// Patterns of event types: `order.paid`, `order.*` or `*`.
    pub event_types: Vec<String>,
    /// Whether the events of an aggregate are sent in order.
    pub is_ordered: bool,
    /// Content of the bodies.
    pub body_form: BodyForm,
    /// Whether requests also have an asymmetric signature (`v1a`).
    pub signs_asymmetrically: bool,
    /// Greatest average number of attempts per second, with a burst of one second; `None` for no limit.
    pub per_second: Option<u32>,
    /// Maximum number of concurrent attempts, of all processes together.
    pub max_in_flight: u32,
    /// Static request headers.
    pub headers: Option<EndpointHeaders>,
    /// Secrets, the current one first.
    pub secrets: Vec<EndpointSecret>,
    /// Status.
    pub status: EndpointStatus,
    /// Reason why the endpoint is disabled.
    pub disabled_reason: Option<String>,
    /// Number of changes by operators and of automatic disabling.
    pub version: i64,
    /// Time at which the endpoint was created.
    pub create_time: DateTime<Utc>,
    /// Time of the last change counted by `version`.
    pub update_time: DateTime<Utc>,
    /// Results of the attempts.
    pub health: EndpointHealth,
}

impl WebhookEndpoint {
    /// Key of the endpoint.
    pub fn key(&self) -> EndpointKey {
        EndpointKey { tenant: self.tenant, id: self.id }
    }

    /// The number of attempts that may be in flight. An endpoint that fails gets one request at a time, so that endpoints
    /// that do not answer hold few of the dispatcher's connections.
    pub fn in_flight_limit(&self) -> u32 {
        if self.health.failing_since.is_some() { 1 } else { self.max_in_flight }
    }
}

/// The limit of attempts per second of an endpoint, as state that processes share: the time of the next permitted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRate {
    /// Attempts per second.
    pub per_second: u32,
    /// Earliest time of the next attempt; `None` before the first one.
    pub next_attempt: Option<DateTime<Utc>>,
}

impl AttemptRate {
    /// Time between two attempts.
    fn interval(self) -> TimeDelta {
        TimeDelta::microseconds(1_000_000 / i64::from(self.per_second.max(1)))
    }

    /// Number of attempts that may start now: at most `per_second`.
    pub fn permitted(self, now: DateTime<Utc>) -> u32 {
        let Some(next) = self.next_attempt else { return self.per_second };
        let saved = now.signed_duration_since(next);
        if saved < TimeDelta::zero() {
            return 0;
        }
        let interval = self.interval().num_microseconds().unwrap_or(1).max(1);
        let saved = saved.num_microseconds().unwrap_or(i64::MAX) / interval;
        u32::try_from(saved).unwrap_or(u32::MAX).saturating_add(1).min(self.per_second)
    }

    /// The time of the next permitted attempt after this number of attempts started now.
    pub fn after(self, started: u32, now: DateTime<Utc>) -> DateTime<Utc> {
        // Without earlier attempts, `per_second` of them are permitted at once.
        let burst = self.interval() * i32::try_from(self.per_second.saturating_sub(1)).unwrap_or(i32::MAX);
        let earliest = now - burst;
        let next = self.next_attempt.map_or(earliest, |next| next.max(earliest));
        next + self.interval() * i32::try_from(started).unwrap_or(i32::MAX)
    }
}

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
    /// Those of them whose last attempt had failed ([`EndpointHealth::failing_since`]): they were disabled automatically, or
    /// while they were failing.
    pub disabled_failing: u64,
    /// Earliest due time of the pending deliveries of enabled endpoints that are not paused, except those that wait for an
    /// earlier delivery of their aggregate.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// Selects deliveries to delete, smallest id first ([`WebhookRepo::delete_webhook_deliveries`]).
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

/// Reads webhooks.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait WebhookQueries: Send {
    /// The endpoint of this tenant, or of any (`None`), in any status.
    async fn webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError>;

    /// The health of these endpoints, in any order. Endpoints that do not exist are omitted.
    async fn webhook_health(
        &mut self,
        ids: &[EndpointId],
    ) -> Result<Vec<(EndpointId, EndpointHealth)>, StoreError>;

    /// The endpoints of these tenants that are not deleted, ordered by tenant and id. An endpoint that cannot be read MUST be
    /// logged and omitted, so that it does not stop the others.
    async fn webhook_endpoints(&mut self, tenants: &[TenantId]) -> Result<Vec<WebhookEndpoint>, StoreError>;

    /// At most `limit` endpoints of all tenants that are not deleted, with an id above `after`, ordered by id. One that
    /// cannot be read MUST be logged and omitted.
    async fn webhook_endpoints_after(
        &mut self,
        after: Option<EndpointId>,
        limit: u32,
    ) -> Result<Vec<WebhookEndpoint>, StoreError>;

    /// The delivery to the endpoint.
    async fn webhook_delivery(
        &mut self,
        endpoint: EndpointKey,
        id: i64,
    ) -> Result<Option<WebhookDelivery>, StoreError>;

    /// At most `limit` matching deliveries of the endpoint with an id below `before`, greatest id first.
    async fn webhook_deliveries_page(
        &mut self,
        endpoint: EndpointKey,
        filter: &DeliveryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>, StoreError>;

    /// All deliveries of these events, ordered by id.
    async fn webhook_deliveries_of(&mut self, events: &[EventId])
    -> Result<Vec<WebhookDelivery>, StoreError>;

    /// Number of these deliveries, at most `limit`.
    async fn count_dead_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        limit: u32,
    ) -> Result<u64, StoreError>;

    /// All attempts at the delivery to the endpoint, ordered by their record.
    async fn webhook_attempts(
        &mut self,
        endpoint: EndpointKey,
        delivery: i64,
    ) -> Result<Vec<WebhookAttempt>, StoreError>;

    /// Numbers of the attempts at the endpoint that began at or after this time.
    async fn webhook_attempt_counts(
        &mut self,
        endpoint: EndpointKey,
        since: DateTime<Utc>,
    ) -> Result<AttemptCounts, StoreError>;

    /// State of the webhooks of all tenants.
    async fn webhook_counts(&mut self, now: DateTime<Utc>) -> Result<WebhookCounts, StoreError>;
}

/// Writes webhooks.
///
/// Where a unit of work changes an endpoint and its deliveries, the endpoint is locked first.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait WebhookRepo: Send {
    /// Inserts an endpoint. An id in use, and a slot in use by the tenant, MUST be a `Conflict`.
    async fn insert_webhook_endpoint(&mut self, endpoint: &WebhookEndpoint) -> Result<(), StoreError>;

    /// Replaces everything but the health of the endpoint with this key, if the version is still `after.version - 1`.
    async fn replace_webhook_endpoint(&mut self, after: &WebhookEndpoint) -> Result<Changed, StoreError>;

    /// The endpoint of this tenant, or of any (`None`), in any status. No other unit of work can change it until this one
    /// ends.
    async fn lock_webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError>;

    /// Replaces the health of an endpoint, which MUST be locked.
    async fn set_webhook_health(
        &mut self,
        endpoint: EndpointKey,
        health: &EndpointHealth,
    ) -> Result<(), StoreError>;

    /// Inserts deliveries. A delivery with the endpoint, event and redelivery number of an existing one MUST be ignored.
    /// Returns the number of inserted deliveries.
    async fn insert_webhook_deliveries(
        &mut self,
        deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError>;

    /// Claims pending deliveries whose `due_time` has come, the longest due first. A claimed delivery has the claim, its
    /// end as `due_time`, and one more of `claims`.
    ///
    /// - A repeated claim MUST first return the deliveries of its earlier calls, unchanged: nothing else would return them
    ///   before the claim ends.
    /// - Only enabled endpoints whose `paused_until` is not in the future are used.
    /// - Of all processes together, an endpoint MUST NOT have more claims that have not ended than
    ///   [`WebhookEndpoint::in_flight_limit`], and not more attempts than [`AttemptRate`] permits. Each claim counts as
    ///   an attempt.
    /// - A delivery is claimed only if the [`WebhookCapacity`] of the process has room for it after those that are due for a
    ///   longer time. An endpoint or tenant without room MUST NOT prevent claims from others.
    /// - Of an ordered endpoint, a delivery is claimed only if no delivery with the same `order_key` and a smaller id is
    ///   pending.
    /// - An endpoint from which nothing can be claimed MUST NOT prevent claims from others. Nor may an endpoint or delivery
    ///   that cannot be read: it is logged and left out.
    async fn claim_webhook_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError>;

    /// Records the results of claimed deliveries and their attempts. A result whose claim is not the current one, or
    /// whose delivery is not pending, is ignored. Returns the ids of the deliveries whose results were recorded.
    async fn settle_webhook_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError>;

    /// Sets pending deliveries to `CANCELLED`, of this endpoint, or of all: those of deleted endpoints and, with
    /// `disabled_before`, those of endpoints that are disabled and were last changed before that time. Returns their number.
    async fn cancel_webhook_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
    ) -> Result<u64, StoreError>;

    /// Deletes `DELIVERED` and `CANCELLED` deliveries that ended before [`OldDeliveries::before`], with their attempts. A
    /// redelivery whose event has a `DEAD` delivery to the endpoint MUST stay: with it, that delivery counts as sent again.
    async fn delete_webhook_deliveries(
        &mut self,
        old: &OldDeliveries,
    ) -> Result<DeletedDeliveries, StoreError>;

    /// Sets at most `limit` of these deliveries to `PENDING`, due at `at` and without attempts, the oldest first. Returns
    /// their number.
    async fn resend_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError>;
}
