//! Faults of webhooks.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

/// Body of a delivery without one ([`Fault::EmptyDeliveriesAreSentAgain`]).
const NO_BODY: &str = "\u{1}";

/// Separates the key of a delivery and its event ([`Fault::WebhookOrderIsIgnored`]).
const SEPARATOR: char = '\u{1}';

impl<U: MarketView + ?Sized> Faulty<U> {
    /// The endpoint as it is stored: its limits are higher with some faults.
    fn stored_endpoint(&self, endpoint: &WebhookEndpoint) -> WebhookEndpoint {
        let mut stored = endpoint.clone();
        if self.has(Fault::WebhookClaimsExceedTheLimit) {
            stored.max_in_flight += 1;
        }
        if self.has(Fault::WebhookClaimsExceedTheRate) {
            stored.per_second = stored.per_second.map(|per_second| 2 * per_second);
        }
        stored
    }

    /// The endpoint as it was written.
    fn written_endpoint(&self, mut stored: WebhookEndpoint) -> WebhookEndpoint {
        if self.has(Fault::WebhookClaimsExceedTheLimit) {
            stored.max_in_flight -= 1;
        }
        if self.has(Fault::WebhookClaimsExceedTheRate) {
            stored.per_second = stored.per_second.map(|per_second| per_second / 2);
        }
        stored
    }

    /// The key of an endpoint. With this fault, the tenant has no effect.
    async fn key_for(&mut self, fault: Fault, key: EndpointKey) -> Result<EndpointKey, StoreError> {
        if !self.has(fault) {
            return Ok(key);
        }
        let stored = self.inner().outbox_view().webhook_endpoint(None, key.id).await?;
        Ok(stored.map_or(key, |endpoint| endpoint.key()))
    }

    /// The delivery as it was written.
    fn written_delivery(&self, mut stored: WebhookDelivery) -> WebhookDelivery {
        if let Some((key, _)) = stored.order_key.split_once(SEPARATOR) {
            stored.order_key = key.to_owned();
        }
        if stored.body == NO_BODY {
            stored.body.clear();
        }
        stored
    }
}

impl<U: MarketView + ?Sized> WebhookQueriesWrapper for Faulty<U> {
    async fn webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let tenant = tenant.filter(|_| !self.has(Fault::EndpointReadsIgnoreTenant));
        let found = self.inner().outbox_view().webhook_endpoint(tenant, id).await?;
        Ok(found.map(|stored| self.written_endpoint(stored)))
    }

    async fn webhook_endpoints(&mut self, tenants: &[TenantId]) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let found = if self.has(Fault::EndpointsLeakToOtherTenants) && !tenants.is_empty() {
            let mut all = self.inner().outbox_view().webhook_endpoints_after(None, u32::MAX).await?;
            all.sort_by_key(|endpoint| endpoint.tenant);
            all
        } else {
            self.inner().outbox_view().webhook_endpoints(tenants).await?
        };
        Ok(found.into_iter().map(|stored| self.written_endpoint(stored)).collect())
    }

    async fn webhook_delivery(
        &mut self,
        endpoint: EndpointKey,
        id: i64,
    ) -> Result<Option<WebhookDelivery>, StoreError> {
        let endpoint = self.key_for(Fault::DeliveryReadsIgnoreTenant, endpoint).await?;
        let found = self.inner().outbox_view().webhook_delivery(endpoint, id).await?;
        Ok(found.map(|stored| self.written_delivery(stored)))
    }

    async fn webhook_deliveries_page(
        &mut self,
        endpoint: EndpointKey,
        filter: &DeliveryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let mut filter = filter.clone();
        if self.has(Fault::PagesIgnoreLowestId) {
            filter.above_id = None;
        }
        if self.has(Fault::DeliveryPagesIgnoreStatus) {
            filter.status = None;
        }
        let endpoint = self.key_for(Fault::DeliveryPagesIgnoreTenant, endpoint).await?;
        let before = self.first_below(before);
        self.inner().outbox_view().webhook_deliveries_page(endpoint, &filter, before, limit).await
    }

    async fn has_pending_webhook_deliveries(
        &mut self,
        endpoint: EndpointKey,
        body_form: Option<BodyForm>,
    ) -> Result<bool, StoreError> {
        let body_form = body_form.filter(|_| !self.has(Fault::PendingDeliveriesIgnoreBody));
        self.inner().outbox_view().has_pending_webhook_deliveries(endpoint, body_form).await
    }

    async fn webhook_deliveries_of(
        &mut self,
        events: &[EventId],
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let found = self.inner().outbox_view().webhook_deliveries_of(events).await?;
        Ok(found.into_iter().map(|stored| self.written_delivery(stored)).collect())
    }

    async fn count_dead_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let endpoint = self.key_for(Fault::DeadDeliveryCountsIgnoreTenant, dead.endpoint).await?;
        let dead = DeadDeliveries { endpoint, ..*dead };
        self.inner().outbox_view().count_dead_webhook_deliveries(&dead, limit).await
    }

    async fn webhook_attempts(
        &mut self,
        endpoint: EndpointKey,
        delivery: i64,
    ) -> Result<Vec<WebhookAttempt>, StoreError> {
        let endpoint = self.key_for(Fault::AttemptReadsIgnoreTenant, endpoint).await?;
        self.inner().outbox_view().webhook_attempts(endpoint, delivery).await
    }

    async fn webhook_attempt_counts(
        &mut self,
        endpoint: EndpointKey,
        since: DateTime<Utc>,
    ) -> Result<AttemptCounts, StoreError> {
        let endpoint = self.key_for(Fault::AttemptCountsIgnoreTenant, endpoint).await?;
        self.inner().outbox_view().webhook_attempt_counts(endpoint, since).await
    }
}

impl Unit {
    /// Ends the pauses and failures of endpoints before a claim. Returns the health to be restored afterwards.
    async fn hide_health(
        &mut self,
        hide: fn(&mut EndpointHealth),
    ) -> Result<Vec<(EndpointKey, EndpointHealth)>, StoreError> {
        let mut hidden = Vec::new();
        for endpoint in self.inner().outbox_view().webhook_endpoints_after(None, u32::MAX).await? {
            let mut health = endpoint.health.clone();
            hide(&mut health);
            if health != endpoint.health {
                self.inner().outbox().set_webhook_health(endpoint.key(), &health).await?;
                hidden.push((endpoint.key(), endpoint.health));
            }
        }
        Ok(hidden)
    }

    async fn claim_with_fault(&mut self, claim: &WebhookClaim) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let mut requested = claim.clone();
        let hidden = match self.shared.fault {
            Fault::WebhookClaimsIgnorePauses => self.hide_health(|health| health.paused_until = None).await?,
            Fault::FailingEndpointsGetManyAttempts => {
                self.hide_health(|health| health.failing_since = None).await?
            }
            Fault::WebhookClaimsIgnoreCapacity => {
                requested.capacity = WebhookCapacity::new(u32::MAX, &BTreeMap::new());
                Vec::new()
            }
            Fault::RepeatedClaimsAreNew => {
                requested.is_repeated = false;
                Vec::new()
            }
            Fault::WebhookClaimsEndEarly => {
                requested.until = claim.now + (claim.until - claim.now) / 2;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let mut claimed = self.inner().outbox().claim_webhook_deliveries(&requested).await?;
        if self.has(Fault::NewestDeliveriesAreClaimedFirst) {
            claimed.reverse();
        }
        for (endpoint, health) in hidden {
            self.inner().outbox().set_webhook_health(endpoint, &health).await?;
        }
        for claimed in &mut claimed {
            claimed.endpoint = self.written_endpoint(claimed.endpoint.clone());
            claimed.delivery = self.written_delivery(claimed.delivery.clone());
        }
        Ok(claimed)
    }

    /// The result as a store with a fault records it.
    async fn faulty_result(&mut self, settled: &SettledDelivery) -> Result<SettledDelivery, StoreError> {
        let mut settled = settled.clone();
        match (self.shared.fault, &settled.after) {
            (Fault::WebhookResultsIgnoreClaims, _) => {
                let delivery =
                    self.inner().outbox_view().webhook_delivery(settled.endpoint, settled.delivery).await?;
                if let Some(claim) = delivery.and_then(|delivery| delivery.claim) {
                    settled.claim = claim;
                }
            }
            (Fault::InterruptedAttemptsAreCounted, AfterAttempt::Released(due)) => {
                settled.after = AfterAttempt::Retry(*due);
            }
            (Fault::InterruptedAttemptsAreLost, AfterAttempt::Released(_)) => settled.attempt = None,
            _ => {}
        }
        Ok(settled)
    }
}

impl WebhookRepoWrapper for Unit {
    async fn insert_webhook_endpoint(&mut self, endpoint: &WebhookEndpoint) -> Result<(), StoreError> {
        let stored = self.stored_endpoint(endpoint);
        self.inner().outbox().insert_webhook_endpoint(&stored).await
    }

    async fn replace_webhook_endpoint(&mut self, after: &WebhookEndpoint) -> Result<Changed, StoreError> {
        let mut stored = self.stored_endpoint(after);
        stored.tenant = self.key_for(Fault::EndpointReplacementsIgnoreTenant, after.key()).await?.tenant;
        let changed = self.inner().outbox().replace_webhook_endpoint(&stored).await?;
        if self.has(Fault::EndpointReplacementsResetHealth) && changed == Changed::One {
            self.inner().outbox().set_webhook_health(after.key(), &after.health).await?;
        }
        Ok(changed)
    }

    async fn lock_webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let tenant = tenant.filter(|_| !self.has(Fault::EndpointLocksIgnoreTenant));
        let found = if self.has(Fault::EndpointLocksAreNotTaken) {
            self.inner().outbox_view().webhook_endpoint(tenant, id).await?
        } else {
            self.inner().outbox().lock_webhook_endpoint(tenant, id).await?
        };
        Ok(found.map(|stored| self.written_endpoint(stored)))
    }

    async fn set_webhook_health(
        &mut self,
        endpoint: EndpointKey,
        health: &EndpointHealth,
    ) -> Result<(), StoreError> {
        let endpoint = self.key_for(Fault::EndpointHealthIgnoresTenant, endpoint).await?;
        self.inner().outbox().set_webhook_health(endpoint, health).await
    }

    async fn insert_webhook_deliveries(
        &mut self,
        deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError> {
        let mut stored = deliveries.to_vec();
        if self.has(Fault::WebhookOrderIsIgnored) {
            for new in &mut stored {
                new.order_key = format!("{}{SEPARATOR}{}", new.order_key, new.event_id.as_str());
            }
        }
        if self.has(Fault::EmptyDeliveriesAreSentAgain) {
            for new in stored.iter_mut().filter(|new| new.body.is_empty()) {
                NO_BODY.clone_into(&mut new.body);
            }
        }
        if self.has(Fault::DeliveryFormsAreLost) {
            stored.iter_mut().for_each(|new| new.body_form = BodyForm::Thin);
        }
        let inserted = self.inner().outbox().insert_webhook_deliveries(&stored).await?;
        let counts_all = self.has(Fault::IgnoredDeliveriesAreCounted);
        Ok(if counts_all { deliveries.len() as u64 } else { inserted })
    }

    async fn claim_webhook_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        if self.has(Fault::WebhookClaimsAreTakenOutsideUnit) {
            let mut own = self.shared.inner.begin().await?;
            let claimed = own.outbox().claim_webhook_deliveries(claim).await?;
            own.commit().await?;
            return Ok(claimed);
        }
        self.claim_with_fault(claim).await
    }

    async fn settle_webhook_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        let mut recorded = Vec::new();
        for settled in settled {
            let result = self.faulty_result(settled).await?;
            recorded.extend(self.inner().outbox().settle_webhook_deliveries(&[result]).await?);
        }
        Ok(recorded)
    }

    async fn cancel_webhook_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let endpoint = match endpoint {
            Some(endpoint) => Some(self.key_for(Fault::CancellationIgnoresTenant, endpoint).await?),
            None => None,
        };
        let disabled_before = disabled_before.filter(|_| !self.has(Fault::DisabledEndpointsKeepDeliveries));
        let limit = if self.has(Fault::CancellationIgnoresLimit) { u32::MAX } else { limit };
        self.inner().outbox().cancel_webhook_deliveries(endpoint, disabled_before, at, limit).await
    }

    async fn delete_webhook_deliveries(
        &mut self,
        old: &OldDeliveries,
    ) -> Result<DeletedDeliveries, StoreError> {
        let mut old = *old;
        if self.has(Fault::YoungDeliveriesAreDeleted) {
            old.before += chrono::TimeDelta::days(1);
        }
        let done = self.inner().outbox().delete_webhook_deliveries(&old).await?;
        let last = done.last.filter(|_| !self.has(Fault::DeletionOfDeliveriesEndsEarly));
        Ok(DeletedDeliveries { last, ..done })
    }

    async fn resend_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let limit = if self.has(Fault::ResendingIgnoresLimit) { u32::MAX } else { limit };
        let endpoint = self.key_for(Fault::ResendingIgnoresTenant, dead.endpoint).await?;
        let dead = DeadDeliveries { endpoint, ..*dead };
        self.inner().outbox().resend_webhook_deliveries(&dead, at, limit).await
    }
}
