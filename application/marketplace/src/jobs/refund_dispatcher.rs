//! The refund dispatcher: sends due refunds to the payment gateway until the gateway reports their result.
//!
//! **Invariant:** an attempt is committed before its request is sent. After a crash in between, the request is sent again
//! with the same idempotency key. The response to the request does not settle the refund; only a signed report of the
//! gateway does.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, stream};
use handover_events::Trace;
use marketplace_domain::{Refund, RefundId, RefundStatus};
use tracing::{info, warn};

use super::RefundSettings;
use crate::cash;
use crate::ports::{Gateway, GatewayError, MarketTransactor, RefundRequest};
use handover_outbox::jobs::{Job, Periodic, Progress, RunBy};
use handover_outbox::ports::{Changed, Leadership, StoreError};
use handover_outbox::with_tx_using;

/// Maximum number of concurrent requests to the gateway.
const MAX_CONCURRENT_REQUESTS: usize = 8;

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
        Periodic::new("RefundDispatcher", self.settings.scan_interval, RunBy::EveryProcess).start(&tx, self);
    }

    /// Sends one batch of due refunds. Returns the number of requests.
    pub async fn dispatch(&self) -> Result<u64, StoreError> {
        let due = self.tx.view().await?.refunds_due(self.tx.now(), self.settings.batch.get()).await?;
        // All requests complete before an error is returned, so that one failure does not cancel the others.
        let results: Vec<Result<bool, StoreError>> = stream::iter(due)
            .map(|refund| self.dispatch_one(refund.id))
            .buffer_unordered(MAX_CONCURRENT_REQUESTS)
            .collect()
            .await;
        results.into_iter().try_fold(0, |sent, result| Ok(sent + u64::from(result?)))
    }

    /// Sends one refund. Returns `false` if it was not due any more or the process is stopping.
    async fn dispatch_one(&self, id: RefundId) -> Result<bool, StoreError> {
        if self.tx.stopping().is_cancelled() {
            return Ok(false);
        }
        let Some((refund, request)) = self.claim(id).await? else { return Ok(false) };
        self.send(&refund, &request).await?;
        Ok(true)
    }

    /// Commits the attempt and the time of the next one. `None` if the refund is not due any more.
    async fn claim(&self, id: RefundId) -> Result<Option<(Refund, RefundRequest)>, StoreError> {
        let now = self.tx.now();
        with_tx_using(&self.tx, self.settings.clone(), move |unit, settings, _| {
            Box::pin(async move {
                let Some(refund) = unit.refund_by_id(id).await? else { return Ok(None) };
                let is_due = refund.next_attempt_time.is_some_and(|due| due <= now);
                if refund.status != RefundStatus::Processing || !is_due {
                    return Ok(None);
                }
                let payment = unit.payment_by_id(refund.payment).await?;
                let captures = unit.captures_of(refund.tenant, &[refund.order]).await?;
                let captures = cash::captures_of(payment.as_slice(), captures);
                let capture = captures.into_iter().find(|capture| capture.is_refunded_by(&refund));
                let attempted = refund.with_attempt(next_attempt_time(settings, refund.attempts, now), now);
                match unit.advance_refund(&attempted).await? {
                    Changed::None => Err(StoreError::Conflict { what: "refund".to_owned() }),
                    Changed::One => {
                        let request = RefundRequest {
                            refund: attempted.id,
                            reference: attempted.reference,
                            key: attempted.gateway_key(),
                            payment: attempted.payment,
                            payment_reference: payment.and_then(|payment| payment.reference),
                            transaction_id: capture.map(|capture| capture.transaction_id),
                            order: attempted.order,
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

    async fn send(&self, refund: &Refund, request: &RefundRequest) -> Result<(), StoreError> {
        let id = refund.id;
        let order = refund.order;
        let attempt = refund.attempts;
        let trace = &request.trace.trace_id;
        let response = tokio::select! {
            biased;
            response = self.gateway.refund(request) => response,
            () = self.tx.sleep(self.settings.timeout) => {
                Err(GatewayError::Unavailable(format!("no response within {:?}", self.settings.timeout)))
            }
        };
        let error = match response {
            Ok(()) => {
                info!(refundId = %id, orderId = %order, traceId = trace, attempt, "[RefundDispatcher] gateway accepted the request");
                None
            }
            Err(error @ GatewayError::Unavailable(_)) => {
                warn!(%error, refundId = %id, orderId = %order, traceId = trace, attempt, "[RefundDispatcher] request failed; retrying later");
                Some(error)
            }
            Err(error @ GatewayError::Refused(_)) => {
                tracing::error!(%error, refundId = %id, orderId = %order, traceId = trace, attempt,
                    "[RefundDispatcher] [ALERT] gateway rejected the refund; retrying later");
                Some(error)
            }
        };
        let Some(error) = error else { return Ok(()) };
        self.store_error(id, error.to_string()).await
    }

    /// Stores the error in the refund row, for operators.
    async fn store_error(&self, id: RefundId, error: String) -> Result<(), StoreError> {
        let now = self.tx.now();
        with_tx_using(&self.tx, error, move |unit, error, _| {
            Box::pin(async move {
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
}

#[async_trait]
impl Job for RefundDispatcher {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let is_full = self.dispatch().await? >= u64::from(self.settings.batch.get());
        Ok(if is_full { Progress::MoreDue } else { Progress::Done })
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
