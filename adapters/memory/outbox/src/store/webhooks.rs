//! Webhooks: endpoints, deliveries and attempts.

mod claim;
mod deliveries;
pub(super) mod rows;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use handover_outbox::ports::{
    AttemptCounts, AttemptOutcome, BodyForm, Changed, ClaimedDelivery, DeadDeliveries, DeletedDeliveries,
    DeliveryFilter, DeliveryState, EndpointHealth, EndpointId, EndpointKey, EndpointStatus,
    NewWebhookDelivery, OldDeliveries, SettledDelivery, StoreError, WebhookAttempt, WebhookClaim,
    WebhookCounts, WebhookDelivery, WebhookEndpoint, WebhookQueries, WebhookRepo,
};

use super::errors::conflict;
use super::locks::Lock;
use super::outbox_tables::{OutboxRows as _, Statement};
use super::rows::EndpointRow;
use super::statement::Tables;
use super::tables::{below, limited};
use super::unit::MemoryUnit;

use deliveries::is_redelivered;
use rows::of_endpoint;

/// The locks for writing an endpoint: its row, and its slot.
fn locks_of(endpoint: &WebhookEndpoint) -> Vec<Lock> {
    let slot = endpoint.slot.map(|slot| Lock::WebhookSlot(endpoint.tenant, slot));
    [Lock::WebhookEndpoint(endpoint.id)].into_iter().chain(slot).collect()
}

/// Fails if another endpoint of the tenant has the slot.
fn check_slot(statement: &Statement<'_>, new: &WebhookEndpoint) -> Result<(), StoreError> {
    let has_slot = |row: &EndpointRow| {
        let other = &row.endpoint;
        new.slot.is_some() && other.id != new.id && other.tenant == new.tenant && other.slot == new.slot
    };
    if statement.webhook_endpoints().all().any(has_slot) {
        return Err(conflict("uk_webhook_endpoints_slot"));
    }
    Ok(())
}

/// The endpoint of this tenant, or of any.
fn endpoint_of(statement: &Statement<'_>, tenant: Option<TenantId>, id: EndpointId) -> Option<EndpointRow> {
    let found = statement.webhook_endpoints().get(&id);
    found.filter(|row| tenant.is_none_or(|tenant| row.endpoint.tenant == tenant)).cloned()
}

fn passes(filter: &DeliveryFilter, delivery: &WebhookDelivery) -> bool {
    filter.above_id.is_none_or(|id| delivery.id > id)
        && filter.state.is_none_or(|state| delivery.state == state)
        && filter.event_type.as_ref().is_none_or(|event_type| delivery.event_type == *event_type)
        && filter.status.is_none_or(|status| delivery.last_status == Some(status))
        && filter.body_form.is_none_or(|form| delivery.body_form == form)
        && filter.from.is_none_or(|from| delivery.create_time >= from)
        && filter.to.is_none_or(|to| delivery.create_time < to)
}

fn counts(statement: &Statement<'_>, now: DateTime<Utc>) -> WebhookCounts {
    let mut counts = WebhookCounts::default();
    for EndpointRow { endpoint, .. } in statement.webhook_endpoints().all() {
        match endpoint.status {
            EndpointStatus::Enabled => {}
            EndpointStatus::Disabled => {
                counts.disabled_endpoints += 1;
                counts.disabled_failing += u64::from(endpoint.health.failing_since.is_some());
            }
            EndpointStatus::Deleted => continue,
        }
        let is_paused = endpoint.health.paused_until.is_some_and(|until| until > now);
        let mut keys = BTreeSet::new();
        for delivery in of_endpoint(statement, endpoint.id) {
            match delivery.state {
                DeliveryState::Pending => {
                    counts.pending += 1;
                    // A key that occurs before belongs to an earlier delivery that is pending.
                    let is_blocked = !keys.insert(&delivery.order_key) && endpoint.is_ordered;
                    if endpoint.status == EndpointStatus::Enabled && !is_paused && !is_blocked {
                        let earlier = counts.oldest_due.filter(|oldest| *oldest < delivery.due_time);
                        counts.oldest_due = earlier.or(Some(delivery.due_time));
                    }
                }
                DeliveryState::Dead if is_redelivered(statement, delivery) => {}
                DeliveryState::Dead => counts.dead += 1,
                DeliveryState::Delivered | DeliveryState::Cancelled => {}
            }
        }
    }
    counts
}

#[async_trait]
impl<X: Tables> WebhookQueries for MemoryUnit<X> {
    async fn webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        self.read_outbox(|statement| endpoint_of(statement, tenant, id).map(|row| row.endpoint)).await
    }

    async fn webhook_health(
        &mut self,
        ids: &[EndpointId],
    ) -> Result<Vec<(EndpointId, EndpointHealth)>, StoreError> {
        self.read_outbox(|statement| {
            let ids: BTreeSet<EndpointId> = ids.iter().copied().collect();
            let endpoints = statement.webhook_endpoints();
            let health = |id| endpoints.get(&id).map(|row| (id, row.endpoint.health.clone()));
            ids.into_iter().filter_map(health).collect()
        })
        .await
    }

    async fn webhook_endpoints(&mut self, tenants: &[TenantId]) -> Result<Vec<WebhookEndpoint>, StoreError> {
        self.read_outbox(|statement| {
            let endpoints = statement.webhook_endpoints().all().map(|row| &row.endpoint);
            let mut found: Vec<WebhookEndpoint> = endpoints
                .filter(|endpoint| tenants.contains(&endpoint.tenant))
                .filter(|endpoint| endpoint.status != EndpointStatus::Deleted)
                .cloned()
                .collect();
            found.sort_by_key(|endpoint| (endpoint.tenant, endpoint.id));
            found
        })
        .await
    }

    async fn webhook_endpoints_after(
        &mut self,
        after: Option<EndpointId>,
        limit: u32,
    ) -> Result<Vec<WebhookEndpoint>, StoreError> {
        self.read_outbox(|statement| {
            let endpoints = statement.webhook_endpoints().all().map(|row| &row.endpoint);
            endpoints
                .filter(|endpoint| after.is_none_or(|after| endpoint.id > after))
                .filter(|endpoint| endpoint.status != EndpointStatus::Deleted)
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }

    async fn webhook_delivery(
        &mut self,
        endpoint: EndpointKey,
        id: i64,
    ) -> Result<Option<WebhookDelivery>, StoreError> {
        self.read_outbox(|statement| {
            let found = statement.webhook_deliveries().get(&id);
            found.filter(|delivery| delivery.endpoint_key() == endpoint).cloned()
        })
        .await
    }

    async fn webhook_deliveries_page(
        &mut self,
        endpoint: EndpointKey,
        filter: &DeliveryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        self.read_outbox(|statement| {
            let newest_first = statement.webhook_deliveries().select(|table| {
                let ids = table.index.by_endpoint.get(&endpoint.id).into_iter();
                let ids = ids.flat_map(|ids| below(ids, before));
                ids.filter_map(|id| Some((Reverse(*id), table.get(id)?)))
            });
            let matching = newest_first
                .filter(|delivery| delivery.endpoint_key() == endpoint && passes(filter, delivery));
            matching.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn has_pending_webhook_deliveries(
        &mut self,
        endpoint: EndpointKey,
        body_form: Option<BodyForm>,
    ) -> Result<bool, StoreError> {
        let pending =
            DeliveryFilter { state: Some(DeliveryState::Pending), body_form, ..DeliveryFilter::default() };
        Ok(!self.webhook_deliveries_page(endpoint, &pending, None, 1).await?.is_empty())
    }

    async fn webhook_deliveries_of(
        &mut self,
        events: &[EventId],
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        self.read_outbox(|statement| {
            let in_order = statement.webhook_deliveries().select(|table| {
                let of = |event: &EventId| table.index.by_event.get(event).into_iter().flatten().copied();
                let ids: BTreeSet<i64> = events.iter().flat_map(of).collect();
                ids.into_iter().filter_map(|id| Some((id, table.get(&id)?)))
            });
            in_order.cloned().collect()
        })
        .await
    }

    async fn count_dead_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.count_dead_deliveries(dead, limit).await
    }

    async fn webhook_attempts(
        &mut self,
        endpoint: EndpointKey,
        delivery: i64,
    ) -> Result<Vec<WebhookAttempt>, StoreError> {
        self.read_outbox(|statement| {
            // An attempt has no tenant of its own.
            let found = statement.webhook_deliveries().get(&delivery);
            if found.is_none_or(|delivery| delivery.endpoint_key() != endpoint) {
                return Vec::new();
            }
            let attempts = statement.webhook_attempts().all().filter(|row| row.delivery == delivery);
            attempts.map(|row| row.attempt.clone()).collect()
        })
        .await
    }

    async fn webhook_attempt_counts(
        &mut self,
        endpoint: EndpointKey,
        since: DateTime<Utc>,
    ) -> Result<AttemptCounts, StoreError> {
        self.read_outbox(|statement| {
            let mut counts = AttemptCounts::default();
            if endpoint_of(statement, Some(endpoint.tenant), endpoint.id).is_none() {
                return counts;
            }
            let attempts = statement.webhook_attempts().all().filter(|row| row.endpoint == endpoint.id);
            for row in attempts.filter(|row| row.attempt.at >= since) {
                match row.attempt.outcome {
                    AttemptOutcome::Delivered => counts.delivered += 1,
                    AttemptOutcome::Failed => counts.failed += 1,
                    AttemptOutcome::Interrupted => {}
                }
            }
            counts
        })
        .await
    }

    async fn webhook_counts(&mut self, now: DateTime<Utc>) -> Result<WebhookCounts, StoreError> {
        self.read_outbox(|statement| counts(statement, now)).await
    }
}

#[async_trait]
impl<X: Tables> WebhookRepo for MemoryUnit<X> {
    async fn insert_webhook_endpoint(&mut self, endpoint: &WebhookEndpoint) -> Result<(), StoreError> {
        self.write_outbox(locks_of(endpoint), |statement| {
            if statement.webhook_endpoints().get(&endpoint.id).is_some() {
                return Err(conflict("webhook_endpoints_pkey"));
            }
            check_slot(statement, endpoint)?;
            let row = EndpointRow { endpoint: endpoint.clone(), next_attempt: None };
            statement.own.webhook_endpoints.put(row);
            Ok(())
        })
        .await
    }

    async fn replace_webhook_endpoint(&mut self, after: &WebhookEndpoint) -> Result<Changed, StoreError> {
        self.write_outbox(locks_of(after), |statement| {
            let found = endpoint_of(statement, Some(after.tenant), after.id);
            let Some(row) = found.filter(|row| row.endpoint.version == after.version - 1) else {
                return Ok(Changed::None);
            };
            check_slot(statement, after)?;
            let endpoint = WebhookEndpoint { health: row.endpoint.health, ..after.clone() };
            statement.own.webhook_endpoints.put(EndpointRow { endpoint, ..row });
            Ok(Changed::One)
        })
        .await
    }

    async fn lock_webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        self.write_outbox(vec![Lock::WebhookEndpoint(id)], |statement| {
            Ok(endpoint_of(statement, tenant, id).map(|row| row.endpoint))
        })
        .await
    }

    async fn set_webhook_health(
        &mut self,
        endpoint: EndpointKey,
        health: &EndpointHealth,
    ) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::WebhookEndpoint(endpoint.id)], |statement| {
            if let Some(mut row) = endpoint_of(statement, Some(endpoint.tenant), endpoint.id) {
                row.endpoint.health = health.clone();
                statement.own.webhook_endpoints.put(row);
            }
            Ok(())
        })
        .await
    }

    async fn insert_webhook_deliveries(
        &mut self,
        deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError> {
        self.insert_deliveries(deliveries).await
    }

    async fn claim_webhook_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        self.claim_deliveries(claim).await
    }

    async fn settle_webhook_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        self.settle_deliveries(settled).await
    }

    async fn cancel_webhook_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.cancel_deliveries(endpoint, disabled_before, at, limit).await
    }

    async fn delete_webhook_deliveries(
        &mut self,
        old: &OldDeliveries,
    ) -> Result<DeletedDeliveries, StoreError> {
        self.delete_deliveries(old).await
    }

    async fn resend_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.resend_deliveries(dead, at, limit).await
    }
}
