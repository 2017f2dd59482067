//! Checks writes of webhooks: claims, results of attempts, and the events about both.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    AfterAttempt, AttemptOutcome, Changed, ClaimedDelivery, DeadDeliveries, DeliveryFilter, DeliveryState,
    EndpointKey, EndpointStatus, NewWebhookDelivery, SettledDelivery, StoreError, WebhookClaim,
    WebhookDelivery, WebhookEndpoint, WebhookRepoWrapper,
};
use marketplace::ports::MarketUnit;

use super::super::{Faulty, Unit};
use crate::ports::webhook_writes::{DISABLED_BY_OPERATOR, DeadDelivery, is_about_webhooks};

const ENDPOINT: &str = "webhook endpoint";
const DELIVERY: &str = "webhook delivery";
/// Maximum number of deliveries of a run.
const ALL: u32 = 100_000;
/// Number of claims that may end without a result.
const MAX_CLAIMS: u32 = 5;

impl WebhookRepoWrapper for Unit {
    async fn insert_webhook_endpoint(&mut self, endpoint: &WebhookEndpoint) -> Result<(), StoreError> {
        self.inner.outbox().insert_webhook_endpoint(endpoint).await?;
        self.writes.by_operator = true;
        self.inserted(ENDPOINT, endpoint.status.as_str(), || format!("endpoint {}", endpoint.id));
        Ok(())
    }

    async fn replace_webhook_endpoint(&mut self, after: &WebhookEndpoint) -> Result<Changed, StoreError> {
        let before = self.inner.outbox().webhook_endpoint(Some(after.tenant), after.id).await?;
        let before = before.map(|before| before.status);
        let changed = self.inner.outbox().replace_webhook_endpoint(after).await?;
        if changed == Changed::One {
            self.writes.by_operator = true;
            let is_disabled =
                before == Some(EndpointStatus::Enabled) && after.status == EndpointStatus::Disabled;
            if is_disabled && after.disabled_reason.as_deref() != Some(DISABLED_BY_OPERATOR) {
                self.writes.webhooks.disabled.push(after.id);
            }
        }
        let from = before.map(|before| before.as_str());
        self.advanced(changed, (ENDPOINT, from, after.status.as_str()), || format!("endpoint {}", after.id));
        Ok(changed)
    }

    async fn insert_webhook_deliveries(
        &mut self,
        deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError> {
        let inserted = self.inner.outbox().insert_webhook_deliveries(deliveries).await?;
        if inserted == deliveries.len() as u64 {
            for new in deliveries {
                let what = || format!("delivery of {} to endpoint {}", new.event_id, new.endpoint);
                self.inserted(DELIVERY, DeliveryState::Pending.as_str(), what);
            }
        }
        self.writes.webhooks.written.extend(deliveries.iter().cloned());
        Ok(inserted)
    }

    async fn claim_webhook_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let claimed = self.inner.outbox().claim_webhook_deliveries(claim).await?;
        let endpoints: BTreeSet<EndpointKey> = claimed.iter().map(|it| it.delivery.endpoint_key()).collect();
        for endpoint in endpoints {
            self.check_claim(endpoint, claim, &claimed).await?;
        }
        if !claimed.is_empty() {
            self.writes.webhooks.claimed = Some((claim.clone(), claimed.clone()));
        }
        if claimed.iter().any(|it| it.delivery.claims > 1) {
            self.cover("webhook claimed again after its claim ended");
        }
        Ok(claimed)
    }

    async fn settle_webhook_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        let mut before = Vec::with_capacity(settled.len());
        for it in settled {
            before.push(self.inner.outbox().webhook_delivery(it.endpoint, it.delivery).await?);
        }
        let recorded = self.inner.outbox().settle_webhook_deliveries(settled).await?;
        for (it, before) in settled.iter().zip(before) {
            if recorded.contains(&it.delivery)
                && let Some(before) = before
            {
                self.check_settled(it, &before);
            }
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
        let cancelled =
            self.inner.outbox().cancel_webhook_deliveries(endpoint, disabled_before, at, limit).await?;
        if cancelled > 0 {
            let (pending, cancelled) = (DeliveryState::Pending, DeliveryState::Cancelled);
            let what = || "deliveries of a deleted or disabled endpoint".to_owned();
            self.transition((DELIVERY, pending.as_str(), cancelled.as_str()), what);
        }
        Ok(cancelled)
    }

    async fn resend_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let resent = self.inner.outbox().resend_webhook_deliveries(dead, at, limit).await?;
        if resent > 0 {
            self.writes.by_operator = true;
            let (from, to) = (DeliveryState::Dead, DeliveryState::Pending);
            let what = || format!("deliveries of endpoint {}", dead.endpoint.id);
            self.transition((DELIVERY, from.as_str(), to.as_str()), what);
        }
        Ok(resent)
    }
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    /// Checks the claims of an endpoint. The unit of work has the endpoint locked, so that no other one claims from it.
    async fn check_claim(
        &mut self,
        key: EndpointKey,
        claim: &WebhookClaim,
        claimed: &[ClaimedDelivery],
    ) -> Result<(), StoreError> {
        let id = key.id;
        if claim.is_repeated {
            // It also returns what it had claimed before its commit of unknown outcome, and the endpoint may have changed since.
            return Ok(());
        }
        let Some(endpoint) = self.inner.outbox().webhook_endpoint(Some(key.tenant), id).await? else {
            return Ok(());
        };
        let filter = DeliveryFilter { state: Some(DeliveryState::Pending), ..DeliveryFilter::default() };
        let pending = self.inner.outbox().webhook_deliveries_page(key, &filter, None, ALL).await?;
        let violations = &mut self.writes.violations;
        if endpoint.status != EndpointStatus::Enabled {
            violations.push(format!(
                "deliveries of endpoint {id} were claimed; it is {}",
                endpoint.status.as_str()
            ));
        }
        if endpoint.health.paused_until.is_some_and(|until| until > claim.now) {
            violations.push(format!("deliveries of endpoint {id} were claimed during its pause"));
        }
        let limit = if endpoint.health.failing_since.is_some() { 1 } else { endpoint.max_in_flight };
        let in_flight = pending.iter().filter(|it| it.claim.is_some() && it.due_time > claim.now).count();
        if in_flight as u64 > u64::from(limit) {
            violations
                .push(format!("{in_flight} deliveries of endpoint {id} are in flight, its limit is {limit}"));
        }
        let is_recovered = self.process.faults.observed(|observed| observed.webhooks.recovered.contains(&id));
        if endpoint.is_ordered && !is_recovered {
            for ClaimedDelivery { delivery, .. } in claimed.iter().filter(|it| it.delivery.endpoint == id) {
                let is_earlier =
                    |it: &&WebhookDelivery| it.order_key == delivery.order_key && it.id < delivery.id;
                if let Some(earlier) = pending.iter().find(is_earlier) {
                    violations.push(format!(
                        "{} was claimed for the ordered endpoint {id} while {} is pending",
                        delivery.event_id, earlier.event_id
                    ));
                }
            }
            if pending.iter().any(|it| it.claim.is_none() && it.due_time <= claim.now) {
                self.cover("webhook waiting for an earlier one");
            }
        }
        Ok(())
    }

    /// Checks a recorded result against the delivery before the record.
    fn check_settled(&mut self, settled: &SettledDelivery, before: &WebhookDelivery) {
        let what =
            || format!("delivery {} of {} to endpoint {}", before.id, before.event_id, before.endpoint);
        let (owner, accepted) = self.process.faults.observed(|observed| {
            let accepted = observed.webhooks.received(before.endpoint, &before.event_id).accepted();
            (observed.webhooks.owner(&settled.claim), accepted)
        });
        let mut violations = Vec::new();
        if before.claim.as_ref() != Some(&settled.claim) {
            violations.push("a result was recorded after its claim had ended".to_owned());
        } else if owner.as_ref() != Some(&self.process.name) {
            violations.push("a process recorded the result of a claim that it did not make".to_owned());
        }
        if settled.after == AfterAttempt::Delivered && accepted == 0 {
            violations.push("it is DELIVERED, but no receiver accepted it".to_owned());
        }
        violations.extend(self.wrong_end(settled, before));
        let state = match settled.after {
            AfterAttempt::Delivered => DeliveryState::Delivered,
            AfterAttempt::Dead => DeliveryState::Dead,
            AfterAttempt::Retry(_) | AfterAttempt::Released(_) => DeliveryState::Pending,
        };
        self.writes.violations.extend(violations.into_iter().map(|why| format!("{}: {why}", what())));
        match state {
            DeliveryState::Delivered => self.writes.webhooks.delivered.push(before.id),
            DeliveryState::Dead => self
                .writes
                .webhooks
                .dead
                .push(DeadDelivery { id: before.id, is_announced: !is_about_webhooks(&before.event_type) }),
            DeliveryState::Pending | DeliveryState::Cancelled => {}
        }
        self.transition((DELIVERY, before.state.as_str(), state.as_str()), what);
    }

    /// Whether the next state of the delivery contradicts its number of failed attempts.
    fn wrong_end(&self, settled: &SettledDelivery, before: &WebhookDelivery) -> Option<String> {
        let Some(attempt) = &settled.attempt else {
            return (before.claims <= MAX_CLAIMS)
                .then(|| format!("it was given up after {} claims", before.claims));
        };
        let delays = &self.process.webhook_delays;
        let failures = usize::try_from(before.attempts).unwrap_or(usize::MAX);
        match (attempt.outcome, &settled.after) {
            (AttemptOutcome::Delivered, AfterAttempt::Delivered) => None,
            (AttemptOutcome::Interrupted, AfterAttempt::Released(_)) => {
                self.process.faults.cover(|coverage| coverage.situation("webhook interrupted by a stop"));
                None
            }
            (AttemptOutcome::Failed, AfterAttempt::Retry(_)) if attempt.status == Some(410) => None,
            (AttemptOutcome::Failed, AfterAttempt::Retry(due)) => match delays.get(failures) {
                None => Some(format!("a retry follows {} failed attempts", failures + 1)),
                // With 20 % jitter.
                Some(delay) => {
                    let waits = (*due - settled.at).to_std().unwrap_or_default();
                    (waits < *delay / 10 * 8).then(|| {
                        format!("the retry after {} failed attempts is due after {waits:?}", failures + 1)
                    })
                }
            },
            (AttemptOutcome::Failed, AfterAttempt::Dead) => (failures < delays.len())
                .then(|| format!("it is DEAD after {} failed attempts", failures + 1)),
            (outcome, after) => Some(format!("an attempt was {}, the result is {after:?}", outcome.as_str())),
        }
    }
}
