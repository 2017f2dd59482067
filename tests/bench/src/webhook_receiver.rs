//! A receiver of webhooks that accepts every request at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use handover_runtime::Failure;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::error::BenchError;

/// A running receiver; dropping it ends it.
pub(crate) struct WebhookReceiver {
    base: String,
    received: Arc<AtomicU32>,
    _server: AbortOnDropHandle<()>,
}

impl WebhookReceiver {
    pub(crate) async fn start() -> Result<WebhookReceiver, BenchError> {
        let what = "cannot listen for webhooks";
        let failed = |cause| Failure::System { what, cause };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let base = format!("http://{}", listener.local_addr().map_err(failed)?);
        let received = Arc::<AtomicU32>::default();
        let counted = Arc::clone(&received);
        let router = Router::new().fallback(async move |_: Bytes| {
            counted.fetch_add(1, Ordering::Relaxed);
            StatusCode::NO_CONTENT
        });
        #[allow(clippy::disallowed_methods, reason = "the task is not one of the service")]
        let server = tokio::spawn(async move {
            // `serve` returns only if it is asked to stop.
            let _ = axum::serve(listener, router).await;
        });
        Ok(WebhookReceiver { base, received, _server: AbortOnDropHandle::new(server) })
    }

    /// URL of an endpoint.
    pub(crate) fn url(&self, endpoint: u32) -> String {
        format!("{}/hooks/{endpoint}", self.base)
    }

    /// Number of requests since the last reset.
    pub(crate) fn received(&self) -> u32 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.received.store(0, Ordering::Relaxed);
    }
}
