//! A receiver of webhooks: an HTTP server whose answers a test decides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use handover_webhooks::{VerifyingKey, verify};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A received request.
#[derive(Debug, Clone)]
pub struct Received {
    /// Path of the URL.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Time of arrival.
    pub at: Instant,
}

impl Received {
    /// The header `webhook-id`.
    #[track_caller]
    pub fn id(&self) -> &str {
        self.header("webhook-id").unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Panics if the request is not signed with this secret.
    #[track_caller]
    pub fn assert_signed(&self, secret: &str) {
        let key: VerifyingKey = secret.parse().unwrap();
        let verified = verify(&self.headers, &self.body, &[key], chrono::Utc::now());
        assert_eq!(verified, Ok(()), "{self:?}");
    }
}

/// Answer to a request.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    Status(u16),
    /// The status, after a pause.
    Slow(Duration, u16),
    /// The connection stays open without a response.
    Hang,
}

type Decide = dyn Fn(usize, &Received) -> Answer + Send + Sync;

struct Shared {
    decide: Box<Decide>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
}

/// A running receiver; dropping it ends it.
pub struct WebhookReceiver {
    base: String,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

impl WebhookReceiver {
    /// Starts a receiver. `decide` gets the number of earlier requests and the request.
    pub async fn start(
        decide: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static,
    ) -> WebhookReceiver {
        let shared = Arc::new(Shared {
            decide: Box::new(decide),
            received: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let counting = Arc::clone(&shared);
        let listener = listener.tap_io(move |_| {
            counting.connections.fetch_add(1, Ordering::Relaxed);
        });
        let stop = CancellationToken::new();
        let router = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let stopped = stop.clone();
        drop(tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                result = axum::serve(listener, router) => result.unwrap(),
            }
        }));
        WebhookReceiver { base, shared, _stop: stop.drop_guard() }
    }

    /// URL with this path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Number of connections that were opened.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }
}

async fn receive(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = Received { path: uri.path().to_owned(), headers, body, at: Instant::now() };
    let earlier = {
        let mut received = shared.received.lock().unwrap();
        received.push(request.clone());
        received.len() - 1
    };
    let status = match (shared.decide)(earlier, &request) {
        Answer::Status(status) => status,
        Answer::Slow(pause, status) => {
            tokio::time::sleep(pause).await;
            status
        }
        Answer::Hang => std::future::pending().await,
    };
    StatusCode::from_u16(status).unwrap().into_response()
}
