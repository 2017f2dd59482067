//! The refund dispatcher: sends due refunds to the payment gateway until the gateway reports their result.
//!
//! **Invariant:** an attempt is committed before its request is sent. After a crash in between, the request is sent again
//! with the same idempotency key. The response to the request does not settle the refund; only a signed report of the
//! gateway does.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::Trace;
use marketplace_domain::{InvoiceId, OrderId, Refund, RefundId, RefundStatus};
use tracing::{error, info, warn};

use super::RefundSettings;
use crate::cash;
use crate::ports::{Gateway, GatewayError, MarketTransactor, RefundRequest, SentRefundRequest};
use handover_outbox::dispatch::{Dispatch, Dispatcher, dispatch_once};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::with_tx;

/// Error of a request whose response was not awaited.
const INTERRUPTED: &str =
    "the process ended before the response; the request is sent again with the same key";

/// An attempt that was committed, and its request.
type Attempted = (Refund, RefundRequest);

/// What became of a request.
#[derive(Debug, Clone)]
pub enum RequestOutcome {
    /// The gateway accepted it.
    Accepted,
    /// The gateway did not accept it; the error is for the operators.
    Failed(String),
    /// The process ended before the response. The request may have reached the gateway; it is sent again with the same key.
    Interrupted,
}

pub struct RefundDispatcher {
    pub tx: MarketTransactor,
    pub gateway: Arc<dyn Gateway>,
    pub settings: RefundSettings,
}

impl RefundDispatcher {
    /// Starts the dispatcher in every process: each refund is claimed by a conditional write, so the processes share the
    /// requests, and a refund does not wait for an election.
    pub fn start(self) {
        let tx = self.tx.outbox();
        let RefundSettings { scan_interval: interval, concurrency, .. } = self.settings;
        Dispatcher { name: "RefundDispatcher", interval, concurrency }.start(&tx, self);
    }

    /// Sends one batch of due refunds. Returns the number of requests.
    pub async fn dispatch(&self) -> Result<usize, StoreError> {
        dispatch_once(&self.tx, self, self.settings.concurrency).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<RefundId>, StoreError> {
        self.tx.view().await?.refunds_due(self.tx.now(), limit).await
    }

    /// Commits the attempt and the time of the next one. `None` if the refund is not due any more.
    async fn attempt(&self, id: RefundId) -> Result<Option<Attempted>, StoreError> {
        let now = self.tx.now();
        with_tx(&self.tx, self.settings.clone(), move |unit, settings, _| {
            Box::pin(async move {
                let Some(refund) = unit.refund_by_id(id).await? else { return Ok(None) };
                let is_due = refund.next_attempt_time.is_some_and(|due| due <= now);
                if refund.status != RefundStatus::Processing || !is_due {
                    return Ok(None);
                }
                let payment = unit.payment_by_id(refund.payment).await?;
                let captures = match &payment {
                    Some(payment) => cash::captures_of_payment(unit, payment).await?,
                    None => Vec::new(),
                };
                let capture = captures.into_iter().find(|capture| capture.is_refunded_by(&refund));
                let attempted = refund.with_attempt(next_attempt_time(settings, refund.attempts, now), now);
                match unit.advance_refund(&attempted).await? {
                    Changed::None => Err(StoreError::Conflict { what: "refund".to_owned() }),
                    Changed::One => {
                        unit.insert_refund_request(&request_of(&attempted, now)).await?;
                        let request = RefundRequest {
                            refund: attempted.id,
                            reference: attempted.reference,
                            key: attempted.gateway_key(),
                            payment: attempted.payment,
                            payment_reference: payment.and_then(|payment| payment.reference),
                            transaction_id: capture.map(|capture| capture.transaction_id),
                            of: attempted.of,
                            amount: attempted.amount,
                            currency: attempted.currency,
                            trace: attempted.trace.clone().unwrap_or_else(|| fallback_trace(attempted.id)),
                        };
                        Ok(Some((attempted, request)))
                    }
                }
            })
        })
        .await
    }

    /// Sends a request.
    async fn send(&self, (refund, request): &Attempted) -> RequestOutcome {
        let id = refund.id;
        let order = refund.of.order().map(OrderId::get);
        let invoice = refund.of.invoice().map(InvoiceId::get);
        let attempt = refund.attempts;
        let trace = &request.trace.trace_id;
        let response = tokio::select! {
            biased;
            response = self.gateway.refund(request) => response,
            () = self.tx.sleep(self.settings.timeout) => {
                Err(GatewayError::Unavailable(format!("no response within {:?}", self.settings.timeout)))
            }
        };
        match response {
            Ok(()) => {
                info!(code = "refund.accepted", refundId = %id, orderId = order, invoiceId = invoice, traceId = trace, attempt, "[RefundDispatcher] gateway accepted the request");
                RequestOutcome::Accepted
            }
            Err(error @ GatewayError::Unavailable(_)) => {
                warn!(code = "refund.request-failed", %error, refundId = %id, orderId = order, invoiceId = invoice, traceId = trace, attempt, "[RefundDispatcher] request failed; retrying later");
                RequestOutcome::Failed(error.to_string())
            }
            Err(error @ GatewayError::Refused(_)) => {
                error!(code = "refund.rejected", %error, refundId = %id, orderId = order, invoiceId = invoice, traceId = trace, attempt,
                    "[RefundDispatcher] [ALERT] gateway rejected the refund; retrying later");
                RequestOutcome::Failed(error.to_string())
            }
        }
    }

    /// Stores the error of the last request, for operators.
    async fn store_error(&self, attempted: &Refund, error: String) -> Result<(), StoreError> {
        let now = self.tx.now();
        let (id, version) = (attempted.id, attempted.version);
        with_tx(&self.tx, error, move |unit, error, _| {
            Box::pin(async move {
                unit.set_refund_request_error(id, version, error).await?;
                let Some(refund) = unit.refund_by_id(id).await? else { return Ok(()) };
                if refund.status == RefundStatus::Processing {
                    let updated = refund.with_error(error.clone(), now);
                    if unit.advance_refund(&updated).await? == Changed::None {
                        return Err(StoreError::Conflict { what: "refund".to_owned() });
                    }
                }
                Ok(())
            })
        })
        .await
    }

    /// Makes a refund due whose request was interrupted, unless it has changed since.
    async fn store_interruption(&self, attempted: &Refund) -> Result<(), StoreError> {
        let due = attempted.with_interrupted_request(self.tx.now());
        let version = attempted.version;
        with_tx(&self.tx, due, move |unit, due, _| {
            Box::pin(async move {
                unit.set_refund_request_error(due.id, version, INTERRUPTED).await?;
                unit.advance_refund(due).await.map(drop)
            })
        })
        .await
    }
}

#[async_trait]
impl Dispatch for RefundDispatcher {
    type Task = Attempted;
    type Outcome = RequestOutcome;

    /// A refund whose attempt cannot be committed, for example because its row or that of its payment is unreadable, stays due. It neither
    /// counts for `limit` nor prevents the attempts of later ones.
    async fn claim(&self, limit: NonZeroU32) -> Result<Vec<Attempted>, StoreError> {
        let mut attempted = Vec::new();
        let mut failed: BTreeSet<RefundId> = BTreeSet::new();
        loop {
            let failed_before = failed.len();
            let skipped = u32::try_from(failed_before).unwrap_or(u32::MAX);
            let mut due = match self.due(limit.get().saturating_add(skipped)).await {
                Ok(due) => due,
                Err(error) if attempted.is_empty() => return Err(error),
                // The requests of the committed attempts are sent; the next claim reports the outage.
                Err(_) => return Ok(attempted),
            };
            due.retain(|id| !failed.contains(id));
            for id in due {
                if attempted.len() >= limit.get() as usize {
                    return Ok(attempted);
                }
                match self.attempt(id).await {
                    Ok(attempt) => attempted.extend(attempt),
                    Err(error) if !error.is_outage() => {
                        error!(code = "refund.attempt-failed", %error, refundId = %id, "[RefundDispatcher] refund cannot be sent; other refunds are sent, this one is tried again");
                        failed.insert(id);
                    }
                    Err(error) if attempted.is_empty() => return Err(error),
                    // The requests of the committed attempts are sent.
                    Err(error) => {
                        warn!(code = "refund.not-recorded", %error, refundId = %id, "[RefundDispatcher] attempt not committed; retrying later");
                        return Ok(attempted);
                    }
                }
            }
            if failed.len() == failed_before {
                return Ok(attempted);
            }
        }
    }

    async fn carry_out(&self, attempted: &Attempted) -> RequestOutcome {
        self.send(attempted).await
    }

    fn interrupted(&self, (refund, request): &Attempted, _: DateTime<Utc>) -> RequestOutcome {
        let order = refund.of.order().map(OrderId::get);
        let invoice = refund.of.invoice().map(InvoiceId::get);
        info!(code = "refund.interrupted", refundId = %refund.id, orderId = order, invoiceId = invoice, traceId = request.trace.trace_id, attempt = refund.attempts,
            "[RefundDispatcher] request interrupted by the end of the process; it is due again");
        RequestOutcome::Interrupted
    }

    async fn record(&self, outcomes: &[(Attempted, RequestOutcome)]) -> Result<(), StoreError> {
        for ((refund, _), outcome) in outcomes {
            let recorded = match outcome {
                RequestOutcome::Accepted => Ok(()),
                RequestOutcome::Failed(error) => self.store_error(refund, error.clone()).await,
                RequestOutcome::Interrupted => self.store_interruption(refund).await,
            };
            match recorded {
                // The request is sent again at its next time.
                Err(error) if !error.is_outage() => {
                    error!(code = "refund.outcome-lost", %error, refundId = %refund.id, "[RefundDispatcher] outcome of a request not recorded");
                }
                Ok(()) | Err(_) => recorded?,
            }
        }
        Ok(())
    }
}

/// The request that the refund has just counted.
fn request_of(attempted: &Refund, now: DateTime<Utc>) -> SentRefundRequest {
    SentRefundRequest {
        refund: attempted.id,
        version: attempted.version,
        tenant: attempted.tenant,
        order: attempted.of.order(),
        attempt: attempted.attempt,
        number: attempted.attempts,
        sent: now,
        error: None,
    }
}

/// Trace of a manually inserted refund, whose row contains no trace.
fn fallback_trace(refund: RefundId) -> Trace {
    Trace { trace_id: format!("refund-{refund}"), traceparent: None }
}

/// Time of the next attempt: exponential backoff with a cap.
fn next_attempt_time(settings: &RefundSettings, attempts: u32, now: DateTime<Utc>) -> DateTime<Utc> {
    let pause = settings.retry_base.saturating_mul(1 << attempts.min(20)).min(settings.retry_cap);
    TimeDelta::from_std(pause).ok().and_then(|pause| now.checked_add_signed(pause)).unwrap_or(now)
}
