//! The HTTP client of the exporter: on the process's own runtime.

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

/// The greatest answer that is read.
const ANSWER_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    runtime: Handle,
    within: Duration,
    /// Whether the last export failed: told once.
    failing: AtomicBool,
}

impl Client {
    pub(crate) fn new(runtime: Handle, within: Duration) -> Client {
        let http = HyperClient::builder(TokioExecutor::new()).build_http();
        Client { http, runtime, within, failing: AtomicBool::new(false) }
    }

    fn tell(&self, outcome: &Result<Response<Bytes>, HttpError>) {
        let failed = match outcome {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        match (failed, self.failing.load(Ordering::Relaxed)) {
            (Some(error), false) => {
                self.failing.store(true, Ordering::Relaxed);
                tracing::warn!(
                    error,
                    "[Telemetry] the collector takes no spans; they are dropped until it does"
                );
            }
            (None, true) => {
                self.failing.store(false, Ordering::Relaxed);
                tracing::info!("[Telemetry] the collector takes spans again");
            }
            (Some(_), true) | (None, false) => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    /// The exporter's thread has no runtime: the request runs on the process's.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (http, within) = (self.http.clone(), self.within);
        let sending = async move {
            let response = http.request(request.map(Full::new)).await?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, body))
        };
        let sent = self.runtime.spawn(async move {
            tokio::time::timeout(within, sending).await.unwrap_or_else(|_| Err("no answer in time".into()))
        });
        let outcome = sent.await.unwrap_or_else(|error| Err(error.into()));
        self.tell(&outcome);
        outcome
    }
}
