//! Limits the number of requests that are processed concurrently. Requests over the limit are rejected at once (load
//! shedding): in a queue they would wait until their clients have timed out.
//!
//! **Invariant:** a request holds a permit only while it is processed. It releases the permit while its body arrives, so
//! that slow senders do not block other requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_events::Trace;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::envelope::Code;
use crate::messages;
use crate::metrics::OVERLOAD_REFUSED;
use crate::refusal::Refusal;
use crate::trace::{Tracing, overload_response};

/// Number of rejected requests per log line. The first rejected request is logged.
const LOG_EVERY: u64 = 1000;

/// The number of requests that may be processed concurrently.
#[derive(Clone)]
pub(crate) struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    rejected: Arc<AtomicU64>,
}

impl ConcurrencyLimit {
    pub(crate) fn new(count: u32) -> ConcurrencyLimit {
        ConcurrencyLimit { permits: Arc::new(Semaphore::new(count as usize)), rejected: Arc::default() }
    }

    fn acquire(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let before = self.rejected.fetch_add(1, Ordering::Relaxed);
            if before.is_multiple_of(LOG_EVERY) {
                tracing::warn!(
                    code = "request.concurrency-limit",
                    rejected = before + 1,
                    "request: concurrency limit reached; requests over the limit are rejected with 503"
                );
            }
            metrics::counter!(OVERLOAD_REFUSED).increment(1);
            Refusal::new(Code::UNAVAILABLE, messages::OVERLOADED).retry_soon()
        })
    }
}

/// The permit of one request; a request extension, shared by the layers.
#[derive(Clone)]
pub(crate) struct RequestPermit {
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    limit: ConcurrencyLimit,
}

impl RequestPermit {
    fn permit(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the permit; does nothing if the request holds none.
    pub(crate) fn release(&self) {
        drop(self.permit().take());
    }

    /// Acquires a permit after [`RequestPermit::release`]; fails if the limit is reached.
    pub(crate) fn reacquire(&self) -> Result<(), Refusal> {
        let permit = self.limit.acquire()?;
        *self.permit() = Some(permit);
        Ok(())
    }
}

/// Middleware of every route except health and documentation. It runs outside of the request's span and log line, so that
/// rejecting a request is cheap; a metric counts the rejections.
pub(crate) async fn limit_concurrency(
    State((tracing, limit)): State<(Tracing, ConcurrencyLimit)>,
    mut request: Request,
    next: Next,
) -> Response {
    let permit = match limit.acquire() {
        Ok(permit) => permit,
        // Inside of the trace layer of an outer router, that layer writes the response.
        Err(refusal) if request.extensions().get::<Trace>().is_some() => return refusal.into_response(),
        Err(refusal) => return overload_response(&tracing, request.headers(), refusal),
    };
    let permit = RequestPermit { permit: Arc::new(Mutex::new(Some(permit))), limit };
    request.extensions_mut().insert(permit.clone());
    let response = next.run(request).await;
    permit.release();
    response
}
