//! Endpoints of webhooks: where a tenant's events are sent, and how fast.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;

use super::endpoint_id::{EndpointId, EndpointKey};

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
