//! Webhooks: endpoints of tenants, the deliveries of events to them, and the attempts at each delivery.
//!
//! **Invariant:** an event has at most one delivery per endpoint, apart from redeliveries that an operator asked for.
//!
//! **Invariant:** the outcome of an attempt is recorded only while its claim is the current one, so that a process that
//! was frozen cannot overwrite the result of another.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};

use super::endpoint_id::{EndpointId, EndpointKey};
use super::error::{Changed, StoreError};
use super::webhook_deliveries::{
    AttemptCounts, ClaimedDelivery, DeadDeliveries, DeletedDeliveries, DeliveryFilter, NewWebhookDelivery,
    OldDeliveries, SettledDelivery, WebhookAttempt, WebhookClaim, WebhookCounts, WebhookDelivery,
};
use super::webhook_endpoints::{BodyForm, EndpointHealth, WebhookEndpoint};

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

    /// Whether a delivery to the endpoint is `PENDING`, with this content of its body if one is given.
    async fn has_pending_webhook_deliveries(
        &mut self,
        endpoint: EndpointKey,
        body_form: Option<BodyForm>,
    ) -> Result<bool, StoreError>;

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
    ///   [`WebhookEndpoint::in_flight_limit`], and not more attempts than [`AttemptRate`](super::AttemptRate) permits. Each claim counts as
    ///   an attempt.
    /// - A delivery is claimed only if the [`WebhookCapacity`](super::WebhookCapacity) of the process has room for it after those that are due for a
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

    /// Sets at most `limit` pending deliveries to `CANCELLED`, of this endpoint, or of all: those of deleted endpoints and, with
    /// `disabled_before`, those of endpoints that are disabled and were last changed before that time. Returns their number.
    async fn cancel_webhook_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
        limit: u32,
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
