//! Observations of webhooks: the requests that the receivers got and answered, and the claims that permit requests.
//!
//! A process can be killed between a commit and its observation, so a missing observation never causes a violation,
//! except of the process that would have made it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::EventId;
use handover_outbox::ports::{ClaimId, ClaimedDelivery, EndpointId, WebhookClaim, WebhookRequest};

/// An event at an endpoint.
type Receipt = (EndpointId, String);

#[derive(Default)]
pub(crate) struct WebhookObservations {
    received: BTreeMap<Receipt, Received>,
    /// The process that made each claim.
    claims: BTreeMap<ClaimId, Arc<str>>,
    /// Numbers of claims that a process made and did not use for a request yet.
    permits: BTreeMap<(Arc<str>, Receipt), u32>,
    /// Claimed deliveries whose attempt is counted against the limit per second of their endpoint.
    counted: BTreeSet<(ClaimId, i64)>,
    /// End of the last claim of each delivery.
    claimed_until: BTreeMap<i64, DateTime<Utc>>,
    /// For each endpoint with a limit per second, the limit and the times of its claims.
    started: BTreeMap<EndpointId, (u32, Vec<DateTime<Utc>>)>,
    /// Deliveries that were recorded as `DELIVERED`.
    pub(crate) delivered: BTreeSet<i64>,
    /// Endpoints that exist since before the first event.
    pub(crate) initial: BTreeSet<EndpointId>,
    /// Endpoints whose deliveries an operator recovered: they get earlier events after later ones.
    pub(crate) recovered: BTreeSet<EndpointId>,
}

/// The requests with an event that an endpoint got.
#[derive(Debug, Clone, Default)]
pub(crate) struct Received {
    body: String,
    /// Number of requests, with those that did not reach the receiver.
    pub(crate) requests: usize,
    /// Number of responses by HTTP status.
    pub(crate) responses: BTreeMap<u16, usize>,
}

impl Received {
    /// Number of successful responses.
    pub(crate) fn accepted(&self) -> usize {
        self.responses.range(200..300).map(|(_, count)| count).sum()
    }
}

impl WebhookObservations {
    /// Records that a process claimed these deliveries. Returns violations.
    pub(crate) fn record_claim(
        &mut self,
        process: &Arc<str>,
        claim: &WebhookClaim,
        claimed: &[ClaimedDelivery],
    ) -> Vec<String> {
        let mut violations = Vec::new();
        // After a commit of unknown outcome, the claim is repeated.
        let is_repeated = self.claims.insert(claim.id.clone(), Arc::clone(process)).is_some();
        for ClaimedDelivery { delivery, endpoint } in claimed {
            let (id, event) = (delivery.id, &delivery.event_id);
            if self.delivered.contains(&id) {
                violations.push(format!("delivery {id} of {event} was claimed after it was DELIVERED"));
            }
            let earlier = self.claimed_until.insert(id, claim.until);
            // With one claim since the last result, the earlier claim had a result.
            let is_early = earlier.is_some_and(|until| until > claim.now) && !is_repeated;
            if delivery.claims > 1 && is_early {
                violations.push(format!("delivery {id} of {event} was claimed before its claim ended"));
            }
            let permit = (Arc::clone(process), (endpoint.id, event.as_str().to_owned()));
            *self.permits.entry(permit).or_default() += 1;
            // A claim that is repeated after a commit of unknown outcome returns its deliveries again.
            if self.counted.insert((claim.id.clone(), id)) {
                violations.extend(self.record_start(endpoint.id, endpoint.per_second, claim.now));
            }
        }
        violations
    }

    /// Records that an attempt at an endpoint starts. In any second, by the clocks of the processes, at most twice the
    /// limit starts: a burst of one second, and the average.
    fn record_start(
        &mut self,
        endpoint: EndpointId,
        per_second: Option<u32>,
        now: DateTime<Utc>,
    ) -> Option<String> {
        let Some(limit) = per_second else {
            self.started.remove(&endpoint);
            return None;
        };
        let (last_limit, times) = self.started.entry(endpoint).or_default();
        if *last_limit != limit {
            times.clear();
            *last_limit = limit;
        }
        times.push(now);
        let since = now - TimeDelta::seconds(1);
        let count = times.iter().filter(|time| **time > since && **time <= now).count();
        let permitted = 2 * usize::try_from(limit).unwrap_or(usize::MAX);
        (count > permitted).then(|| {
            format!("{count} attempts at endpoint {endpoint} started in one second, its limit is {limit}")
        })
    }

    /// The process that made this claim.
    pub(crate) fn owner(&self, claim: &ClaimId) -> Option<Arc<str>> {
        self.claims.get(claim).cloned()
    }

    /// Records a request before it is sent. Returns violations.
    pub(crate) fn record_request(&mut self, process: &Arc<str>, request: &WebhookRequest<'_>) -> Vec<String> {
        let mut violations = Vec::new();
        let receipt = (request.endpoint.id, request.message_id.clone());
        let (endpoint, event) = &receipt;
        match self.permits.get_mut(&(Arc::clone(process), receipt.clone())) {
            Some(permits) if *permits > 0 => *permits -= 1,
            Some(_) | None => {
                violations.push(format!("{event} was sent to endpoint {endpoint} without a committed claim"));
            }
        }
        let received = self.received.entry(receipt.clone()).or_default();
        if received.requests > 0 && received.body != request.body {
            violations.push(format!("{event} was sent to endpoint {endpoint} with another body than before"));
        }
        received.requests += 1;
        request.body.clone_into(&mut received.body);
        violations
    }

    /// Records a response of a receiver.
    pub(crate) fn record_response(&mut self, endpoint: EndpointId, message_id: &str, status: u16) {
        let received = self.received.entry((endpoint, message_id.to_owned())).or_default();
        *received.responses.entry(status).or_default() += 1;
    }

    /// The requests with an event that an endpoint got.
    pub(crate) fn received(&self, endpoint: EndpointId, event: &EventId) -> Received {
        self.received.get(&(endpoint, event.as_str().to_owned())).cloned().unwrap_or_default()
    }
}
