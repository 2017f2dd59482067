//! Asks the payment gateway for the refunds that are due, until it reports what became of them.
//!
//! **Invariant:** that the gateway is about to be asked is committed before it is: whoever dies in between is followed by
//! another that asks again, under the same key. Only the signed report settles a refund.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, stream};
use handover_events::Trace;
use marketplace_domain::{Refund, RefundId, RefundStatus};
use tracing::{info, warn};

use super::RefundSettings;
use crate::App;
use crate::mutants::{Mutant, planted};
use crate::ports::{GatewayError, RefundRequest};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::with_tx;

/// How many requests to the gateway are under way at a time.
const AT_ONCE: usize = 8;

/// Dispatches refunds.
pub struct RefundDispatcher {
    app: App,
    settings: RefundSettings,
}

impl RefundDispatcher {
    /// A dispatcher with these settings.
    pub fn new(app: App, settings: RefundSettings) -> RefundDispatcher {
        RefundDispatcher { app, settings }
    }

    /// Looks at once and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            match self.dispatch().await {
                Ok(asked) if asked >= u64::from(self.settings.batch.get()) => continue,
                Ok(_) => {}
                Err(error) => warn!(%error, "[RefundDispatcher] failed; it comes again"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.settings.scan_interval) => {}
            }
        }
    }

    /// Asks for one batch of those that are due; tells how many it asked for.
    pub async fn dispatch(&self) -> Result<u64, StoreError> {
        let due = self.app.view().await?.refunds_due(self.app.now(), self.settings.batch.get()).await?;
        // A gateway that hangs is waited for by some of them at a time, and by all of them before an error is told.
        let asked: Vec<Result<bool, StoreError>> =
            stream::iter(due).map(|refund| self.one(refund.id)).buffer_unordered(AT_ONCE).collect().await;
        asked.into_iter().try_fold(0, |asked, one| Ok(asked + u64::from(one?)))
    }

    /// Asks for one; tells whether it did.
    async fn one(&self, id: RefundId) -> Result<bool, StoreError> {
        if self.app.tx.tasks.stopping().is_cancelled() {
            return Ok(false);
        }
        let Some((refund, request)) = self.claim(id).await? else { return Ok(false) };
        self.ask(&refund, &request).await?;
        Ok(true)
    }

    /// Writes down that the gateway is asked now, and when again; nothing if somebody else was faster.
    async fn claim(&self, id: RefundId) -> Result<Option<(Refund, RefundRequest)>, StoreError> {
        let now = self.app.now();
        let settings = self.settings.clone();
        with_tx(&self.app.tx, move |unit, _| {
            let settings = settings.clone();
            Box::pin(async move {
                let Some(refund) = unit.refund_by_id(id).await? else { return Ok(None) };
                let is_due = refund.next_attempt_time.is_some_and(|due| due <= now);
                if refund.status != RefundStatus::Processing || !is_due {
                    return Ok(None);
                }
                let payment = unit.payment_by_id(refund.payment).await?;
                let mut asked = refund.asked(next_time(&settings, refund.attempts, now), now);
                if planted(Mutant::RefundAskedOnce) {
                    asked.next_attempt_time = None;
                }
                match unit.advance_refund(&asked).await? {
                    Changed::None => Err(StoreError::Conflict { what: "refund".to_owned() }),
                    Changed::One => {
                        let request = RefundRequest {
                            refund: asked.id,
                            payment: asked.payment,
                            transaction_id: payment.and_then(|payment| payment.transaction_id),
                            order: asked.order,
                            amount: asked.amount,
                            currency: asked.currency,
                            trace: asked.trace.clone().unwrap_or_else(|| untraced(asked.id)),
                        };
                        Ok(Some((asked, request)))
                    }
                }
            })
        })
        .await
    }

    async fn ask(&self, refund: &Refund, request: &RefundRequest) -> Result<(), StoreError> {
        let (id, order, attempt) = (refund.id, refund.order, refund.attempts);
        let trace = &request.trace.trace_id;
        let answer = tokio::select! {
            biased;
            answer = self.app.gateway.refund(request) => answer,
            () = self.app.tx.clock.sleep(self.settings.timeout) => {
                Err(GatewayError::Unavailable(format!("no answer within {:?}", self.settings.timeout)))
            }
        };
        let error = match answer {
            Ok(()) => {
                info!(refundId = %id, orderId = %order, traceId = trace, attempt, "[RefundDispatcher] the gateway took the request");
                None
            }
            Err(error @ GatewayError::Unavailable(_)) => {
                warn!(%error, refundId = %id, orderId = %order, traceId = trace, attempt, "[RefundDispatcher] asked again later");
                Some(error)
            }
            Err(error @ GatewayError::Refused(_)) => {
                tracing::error!(%error, refundId = %id, orderId = %order, traceId = trace, attempt,
                    "[RefundDispatcher] [ALERT] the gateway refuses a refund; asked again later");
                Some(error)
            }
        };
        let Some(error) = error else { return Ok(()) };
        self.write_down(id, error.to_string()).await
    }

    /// What went wrong, for whoever looks at the refund.
    async fn write_down(&self, id: RefundId, error: String) -> Result<(), StoreError> {
        let now = self.app.now();
        with_tx(&self.app.tx, move |unit, _| {
            let error = error.clone();
            Box::pin(async move {
                let Some(refund) = unit.refund_by_id(id).await? else { return Ok(()) };
                if refund.status == RefundStatus::Processing {
                    let noted = refund.noted(error, now);
                    if unit.advance_refund(&noted).await? == Changed::None {
                        return Err(StoreError::Conflict { what: "refund".to_owned() });
                    }
                }
                Ok(())
            })
        })
        .await
    }
}

/// The trace of a refund whose row names none, as a person may insert it.
fn untraced(refund: RefundId) -> Trace {
    Trace { trace_id: format!("refund-{refund}"), traceparent: None }
}

/// When the gateway is asked again, after so many times before this one.
fn next_time(settings: &RefundSettings, attempts: u32, now: DateTime<Utc>) -> DateTime<Utc> {
    let pause = settings.retry_base.saturating_mul(1 << attempts.min(20)).min(settings.retry_cap);
    TimeDelta::from_std(pause).ok().and_then(|pause| now.checked_add_signed(pause)).unwrap_or(now)
}
