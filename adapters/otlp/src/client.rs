//! HTTP client of the exporter. It runs on the Tokio runtime of the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    runtime: Handle,
    timeout: Duration,
    /// Whether the last export failed, so that an outage is logged only once.
    failing: AtomicBool,
}

impl Client {
    pub(crate) fn new(runtime: Handle, timeout: Duration) -> Client {
        let http = HyperClient::builder(TokioExecutor::new()).build_http();
        Client { http, runtime, timeout, failing: AtomicBool::new(false) }
    }

    fn log_change(&self, outcome: &Result<Response<Bytes>, HttpError>) {
        let failed = match outcome {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector responded with {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        match (failed, self.failing.load(Ordering::Relaxed)) {
            (Some(error), false) => {
                self.failing.store(true, Ordering::Relaxed);
                tracing::warn!(
                    code = "traces.export-failed",
                    error,
                    "[Telemetry] export failed; spans are dropped until the collector accepts them"
                );
            }
            (None, true) => {
                self.failing.store(false, Ordering::Relaxed);
                tracing::info!(code = "traces.export-resumed", "[Telemetry] export resumed");
            }
            (Some(_), true) | (None, false) => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    /// Runs the request on the runtime of the process, because the thread of the exporter has no runtime.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let timeout = self.timeout;
        let sending = async move {
            let response = http.request(request.map(Full::new)).await?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, body))
        };
        let sent = self.runtime.spawn(async move {
            tokio::time::timeout(timeout, sending)
                .await
                .unwrap_or_else(|_| Err("no response within the timeout".into()))
        });
        let outcome = sent.await.unwrap_or_else(|error| Err(error.into()));
        self.log_change(&outcome);
        outcome
    }
}
