//! Sends deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tracing::{error, info, warn};

use super::events::MAX_RETRY_COUNT;
use super::operations::Webhooks;
use super::record::{Recording, record};
use super::schedule;
use super::sweep::Sweep;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::metrics::{WEBHOOK_DELIVERED, WEBHOOK_FAILED, WEBHOOK_INTERRUPTED, WEBHOOK_NOT_SIGNED};
use crate::ports::{
    AfterAttempt, AttemptOutcome, ClaimId, ClaimedDelivery, EndpointId, EndpointKey, SecretError, SendError,
    SettledDelivery, StoreError, WebhookAttempt, WebhookCapacity, WebhookClaim, WebhookRequest,
    WebhookResponse, WebhookTransport,
};
use crate::storable_text::storable;
use crate::transaction::{Transactor, with_tx};

/// Longest stored part of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 1024;
/// Longest stored error, in bytes.
const MAX_ERROR_BYTES: usize = 1024;
/// Number of claims that may end without a result.
const MAX_CLAIMS: u32 = 5;
/// Time until a delivery whose request could not be signed is claimed again.
const NOT_SIGNED_DELAY: TimeDelta = TimeDelta::seconds(10);
/// Time from the time limit of an attempt to the end of its claim.
const CLAIM_MARGIN: TimeDelta = TimeDelta::seconds(15);

/// Settings of the dispatcher.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Time between two searches for due deliveries while no attempt ends (`webhook.scan-interval`).
    pub scan_interval: Duration,
    /// Maximum number of attempts in progress in this process (`webhook.concurrency`).
    pub concurrency: NonZeroU32,
    /// Time limit of an attempt with its response (`webhook.timeout`).
    pub timeout: Duration,
    /// Delays after the first and each further failed attempt; after one more failure the delivery is `DEAD`
    /// (`webhook.delays`). Each varies by 20 %.
    pub delays: Vec<Duration>,
    /// Maximum number of publish retries of the events about webhooks.
    pub max_retry_count: u32,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        WebhookSettings {
            scan_interval: Duration::from_millis(500),
            concurrency: NonZeroU32::MIN.saturating_add(511),
            timeout: Duration::from_secs(15),
            delays: schedule::standard(),
            max_retry_count: MAX_RETRY_COUNT,
        }
    }
}

/// Sends due deliveries and records the results. Several processes share the work.
pub struct WebhookDispatcher {
    tx: Transactor,
    transport: Arc<dyn WebhookTransport>,
    settings: WebhookSettings,
    /// The endpoints whose requests this process cannot sign, as it logged.
    not_signed: Mutex<BTreeSet<EndpointId>>,
    in_progress: Arc<InProgress>,
}

/// The attempts in progress in this process: their number by endpoint.
#[derive(Debug, Default)]
struct InProgress(Mutex<BTreeMap<EndpointKey, u32>>);

impl InProgress {
    fn begin(self: &Arc<Self>, claimed: ClaimedDelivery) -> DeliveryInProgress {
        *self.endpoints().entry(claimed.endpoint.key()).or_default() += 1;
        DeliveryInProgress { claimed, among: Arc::clone(self) }
    }

    fn endpoints(&self) -> MutexGuard<'_, BTreeMap<EndpointKey, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claimed delivery, which is in progress until it is dropped.
pub struct DeliveryInProgress {
    claimed: ClaimedDelivery,
    among: Arc<InProgress>,
}

impl Drop for DeliveryInProgress {
    fn drop(&mut self) {
        let mut endpoints = self.among.endpoints();
        let endpoint = self.claimed.endpoint.key();
        match endpoints.get_mut(&endpoint) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(endpoints.remove(&endpoint)),
        }
    }
}

impl Webhooks {
    /// The dispatcher of these webhooks.
    pub fn dispatcher(&self, settings: WebhookSettings) -> WebhookDispatcher {
        let tx = self.outbox.for_background_tasks().tx;
        WebhookDispatcher::new(tx, Arc::clone(&self.transport), settings)
    }
}

/// What became of a claimed delivery.
enum SendResult {
    Response(WebhookResponse),
    NoResponse(String),
    /// This process cannot sign the request: nothing was sent.
    NotSigned(SecretError),
    Interrupted,
    /// Too many claims ended without a result: nothing was sent.
    GivenUp,
}

impl WebhookDispatcher {
    /// Creates a dispatcher.
    pub fn new(
        tx: Transactor,
        transport: Arc<dyn WebhookTransport>,
        settings: WebhookSettings,
    ) -> WebhookDispatcher {
        let in_progress = Arc::default();
        WebhookDispatcher { tx, transport, settings, not_signed: Mutex::default(), in_progress }
    }

    /// Starts the dispatcher in this process, and the sweep that cancels deliveries to deleted endpoints.
    pub fn start(self) {
        let tx = self.tx.clone();
        Sweep { tx: tx.clone() }.start();
        let WebhookSettings { scan_interval: interval, concurrency, .. } = self.settings;
        Dispatcher { name: "WebhookDispatcher", interval, concurrency }.start(&tx, self);
    }

    /// The result of an attempt that began at this time, and its effects on the endpoint.
    fn recording(&self, claimed: &ClaimedDelivery, at: DateTime<Utc>, result: &SendResult) -> Recording {
        let delivery = &claimed.delivery;
        let now = self.tx.now();
        let failed = delivery.attempts.saturating_add(1);
        let delay = schedule::delay(&self.settings.delays, failed, self.tx.random().next());
        let attempt = |outcome, status, error: Option<String>, response| WebhookAttempt {
            at,
            duration_ms: (now - at).num_milliseconds().max(0),
            outcome,
            status,
            error,
            response,
        };
        let mut pause = None;
        let mut is_gone = false;
        let (attempt, after, error) = match result {
            SendResult::GivenUp => {
                let why = format!("{MAX_CLAIMS} attempts ended without a result");
                (None, AfterAttempt::Dead, Some(why))
            }
            SendResult::Interrupted => {
                let why = "interrupted by the end of the process".to_owned();
                let attempt = attempt(AttemptOutcome::Interrupted, None, Some(why), None);
                (Some(attempt), AfterAttempt::Released(now), None)
            }
            SendResult::NotSigned(error) => {
                let why = SendError::NotSigned(error.clone()).to_string();
                // The key of another process may be right.
                (None, AfterAttempt::Released(now + NOT_SIGNED_DELAY), Some(why))
            }
            SendResult::NoResponse(error) => {
                let why = storable(error, MAX_ERROR_BYTES).into_owned();
                let attempt = attempt(AttemptOutcome::Failed, None, Some(why.clone()), None);
                let after = delay.map_or(AfterAttempt::Dead, |delay| AfterAttempt::Retry(now + delay));
                (Some(attempt), after, Some(why))
            }
            SendResult::Response(response) => {
                let body = Some(excerpt(&response.body));
                let status = response.status;
                if (200..300).contains(&status) {
                    let attempt = attempt(AttemptOutcome::Delivered, Some(status), None, body);
                    (Some(attempt), AfterAttempt::Delivered, None)
                } else {
                    let asked = response.retry_after.as_deref();
                    let asked = asked.and_then(|header| schedule::retry_after(header, now));
                    pause = schedule::pause(status, now, asked);
                    is_gone = status == 410;
                    let why = format!("HTTP {status}");
                    let attempt = attempt(AttemptOutcome::Failed, Some(status), Some(why.clone()), body);
                    let after = match delay {
                        // The endpoint is disabled, and its deliveries wait.
                        _ if is_gone => AfterAttempt::Retry(now),
                        Some(delay) => AfterAttempt::Retry(schedule::next_attempt(now, delay, asked)),
                        None => AfterAttempt::Dead,
                    };
                    (Some(attempt), after, Some(why))
                }
            }
        };
        match result {
            SendResult::NotSigned(error) => self.log_not_signed(claimed, error),
            SendResult::Response(_)
            | SendResult::NoResponse(_)
            | SendResult::Interrupted
            | SendResult::GivenUp => log_attempt(claimed, attempt.as_ref(), &after),
        }
        Recording {
            settled: SettledDelivery {
                delivery: delivery.id,
                endpoint: delivery.endpoint_key(),
                claim: delivery.claim.clone().unwrap_or_else(|| ClaimId(String::new())),
                attempt,
                after,
                error,
                at: now,
            },
            claim_end: delivery.due_time,
            pause,
            gone: is_gone.then(|| claimed.endpoint.url.clone()),
            announced_as: crate::event_id(&self.tx),
            disabled_as: crate::event_id(&self.tx),
        }
    }

    /// One error per endpoint, until a request to it is signed: all its deliveries have the same cause.
    fn log_not_signed(&self, claimed: &ClaimedDelivery, error: &SecretError) {
        let endpoint = claimed.endpoint.id;
        if self.not_signed().insert(endpoint) {
            error!(code = "webhook.not-signed", endpointId = %endpoint, %error, "[Webhooks] cannot sign requests to the endpoint; its deliveries wait, no \
                attempt is counted");
        }
        metrics::counter!(WEBHOOK_NOT_SIGNED).increment(1);
    }

    fn not_signed(&self) -> MutexGuard<'_, BTreeSet<EndpointId>> {
        self.not_signed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line per failed attempt; successful attempts at level debug.
fn log_attempt(claimed: &ClaimedDelivery, attempt: Option<&WebhookAttempt>, after: &AfterAttempt) {
    let ClaimedDelivery { delivery, endpoint } = claimed;
    let number = delivery.attempts.saturating_add(1);
    let status = attempt.and_then(|attempt| attempt.status);
    let error = attempt.and_then(|attempt| attempt.error.as_deref());
    let outcome = attempt.map(|attempt| attempt.outcome);
    match outcome {
        Some(AttemptOutcome::Delivered) => {
            tracing::debug!(code = "webhook.delivered", endpointId = %endpoint.id, deliveryId = delivery.id, eventId = %delivery.event_id,
                attempt = number, status, "[Webhooks] delivered");
            metrics::counter!(WEBHOOK_DELIVERED).increment(1);
        }
        Some(AttemptOutcome::Interrupted) => {
            info!(code = "webhook.interrupted", endpointId = %endpoint.id, deliveryId = delivery.id, eventId = %delivery.event_id,
                "[Webhooks] attempt interrupted by the end of the process; the delivery is due again");
            metrics::counter!(WEBHOOK_INTERRUPTED).increment(1);
        }
        Some(AttemptOutcome::Failed) | None => {
            let is_dead = *after == AfterAttempt::Dead;
            warn!(code = "webhook.attempt-failed", endpointId = %endpoint.id, deliveryId = delivery.id, eventId = %delivery.event_id,
                attempt = number, status, error, dead = is_dead, "[Webhooks] attempt failed");
            metrics::counter!(WEBHOOK_FAILED).increment(1);
        }
    }
}

/// The beginning of a response, with control characters escaped.
fn excerpt(body: &[u8]) -> String {
    let start = body.get(..MAX_RESPONSE_BYTES).unwrap_or(body);
    let text = String::from_utf8_lossy(start);
    let escaped = text.chars().flat_map(|character| {
        let (kept, escaped) = if character.is_control() {
            (None, Some(character.escape_default()))
        } else {
            (Some(character), None)
        };
        kept.into_iter().chain(escaped.into_iter().flatten())
    });
    escaped.collect()
}

#[async_trait]
impl Dispatch for WebhookDispatcher {
    type Task = DeliveryInProgress;
    type Outcome = Recording;

    async fn claim(&self, limit: NonZeroU32) -> Result<Vec<DeliveryInProgress>, StoreError> {
        let now = self.tx.now();
        let [one, two] = [self.tx.random().next(), self.tx.random().next()];
        let timeout = TimeDelta::from_std(self.settings.timeout).unwrap_or(CLAIM_MARGIN);
        let claim = WebhookClaim {
            id: ClaimId(format!("{one:016x}{two:016x}")),
            now,
            until: now + timeout + CLAIM_MARGIN,
            limit: limit.get(),
            capacity: WebhookCapacity::new(limit.get(), &self.in_progress.endpoints()),
            is_repeated: false,
        };
        let claimed = with_tx(&self.tx, claim, |unit, claim, attempt| {
            let claim = WebhookClaim { is_repeated: attempt.may_be_committed(), ..claim.clone() };
            Box::pin(async move { unit.outbox().claim_webhook_deliveries(&claim).await })
        });
        Ok(claimed.await?.into_iter().map(|claimed| self.in_progress.begin(claimed)).collect())
    }

    async fn carry_out(&self, DeliveryInProgress { claimed, .. }: &DeliveryInProgress) -> Recording {
        let at = self.tx.now();
        if claimed.delivery.claims > MAX_CLAIMS {
            return self.recording(claimed, at, &SendResult::GivenUp);
        }
        let request = WebhookRequest {
            endpoint: &claimed.endpoint,
            message_id: claimed.delivery.event_id.as_str().to_owned(),
            at,
            body: &claimed.delivery.body,
            is_redelivery: claimed.delivery.redelivery > 0,
            deadline: self.settings.timeout,
        };
        let result = match self.transport.send(&request).await {
            Ok(response) => SendResult::Response(response),
            Err(SendError::NoResponse(cause)) => SendResult::NoResponse(cause),
            Err(SendError::NotSigned(error)) => SendResult::NotSigned(error),
        };
        if !matches!(result, SendResult::NotSigned(_)) {
            self.not_signed().remove(&claimed.endpoint.id);
        }
        self.recording(claimed, at, &result)
    }

    fn interrupted(&self, delivery: &DeliveryInProgress, began_at: DateTime<Utc>) -> Recording {
        self.recording(&delivery.claimed, began_at, &SendResult::Interrupted)
    }

    async fn record(&self, outcomes: &[(DeliveryInProgress, Recording)]) -> Result<(), StoreError> {
        let recordings = outcomes.iter().map(|(_, recording)| recording.clone()).collect();
        record(&self.tx, recordings, self.settings.max_retry_count).await
    }
}
