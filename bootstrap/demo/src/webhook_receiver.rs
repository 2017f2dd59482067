//! A receiver of webhooks that causes trouble on purpose: it fails, hangs, says once that it is gone, and is down for a
//! while. It accepts only requests whose signature it has verified.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use handover_events::EventId;
use handover_outbox::ports::Clock;
use handover_runtime::Failure;
use handover_system::SystemClock;
use standardwebhooks::Webhook;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Every event with a number that is divisible by this one fails at its first attempt.
const FAILS: usize = 4;
/// Number of the event whose first attempt gets no answer.
const HANGS: usize = 6;
/// Number of the event whose first attempt is answered with 410.
const GONE: usize = 9;
/// Number of the event at whose first attempt the receiver goes down.
const DOWN: usize = 13;
/// Time for which it is down.
const DOWNTIME: Duration = Duration::from_millis(1_500);

/// What the receiver saw.
#[derive(Debug, Clone, Default)]
pub(super) struct WebhookRecord {
    /// Events that were accepted: verified, and answered with 2xx.
    pub(super) accepted: BTreeSet<EventId>,
    /// Requests whose signature was wrong.
    pub(super) unverified: usize,
    /// Requests that were not accepted: failed, without an answer, gone, while down.
    pub(super) refused: usize,
}

#[derive(Default)]
struct Seen {
    record: WebhookRecord,
    /// Number of each event, in the order of arrival, from 1.
    numbers: BTreeMap<String, usize>,
    is_down: bool,
}

struct Shared {
    secret: OnceLock<Webhook>,
    seen: Mutex<Seen>,
    goes_down: Notify,
}

/// A running receiver; dropping it ends it.
pub(super) struct WebhookReceiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// Answer to a request.
enum Answer {
    Accepted,
    Status(StatusCode),
    Hang,
}

impl WebhookReceiver {
    pub(super) async fn start() -> Result<WebhookReceiver, Failure> {
        let failed =
            |cause| Failure::System { what: "cannot open a port for the receiver of webhooks", cause };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared =
            Arc::new(Shared { secret: OnceLock::new(), seen: Mutex::default(), goes_down: Notify::new() });
        #[allow(clippy::disallowed_methods, reason = "the task ends when the receiver is dropped")]
        let server = tokio::spawn(serve(listener, address, Arc::clone(&shared)));
        Ok(WebhookReceiver { address, shared, server })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    /// Sets the secret that verifies requests; requests before are refused. Returns `false` if it is not a secret.
    pub(super) fn verify_with(&self, secret: &str) -> bool {
        Webhook::new(secret).is_ok_and(|secret| self.shared.secret.set(secret).is_ok())
    }

    pub(super) fn record(&self) -> WebhookRecord {
        self.shared.seen().record.clone()
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a request. Each kind of trouble meets the first attempt of an event, so that every delivery
    /// succeeds in the end.
    fn answer(&self, headers: &HeaderMap, body: &[u8]) -> Answer {
        let is_verified = self.secret.get().is_some_and(|secret| secret.verify(body, headers).is_ok());
        let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
        let mut seen = self.seen();
        if !is_verified {
            seen.record.unverified += 1;
            return Answer::Status(StatusCode::UNAUTHORIZED);
        }
        let is_first = !seen.numbers.contains_key(&id);
        let number = seen.numbers.len() + 1;
        seen.numbers.entry(id.clone()).or_insert(number);
        if is_first && number == DOWN {
            seen.is_down = true;
            self.goes_down.notify_one();
        }
        let refusal = match number {
            _ if seen.is_down => Some(Answer::Status(StatusCode::INTERNAL_SERVER_ERROR)),
            HANGS if is_first => Some(Answer::Hang),
            GONE if is_first => Some(Answer::Status(StatusCode::GONE)),
            number if is_first && number % FAILS == 0 => {
                Some(Answer::Status(StatusCode::INTERNAL_SERVER_ERROR))
            }
            _ => None,
        };
        match refusal {
            Some(refusal) => {
                seen.record.refused += 1;
                refusal
            }
            None => {
                seen.record.accepted.extend(id.parse::<EventId>());
                Answer::Accepted
            }
        }
    }
}

/// Serves; while the receiver is down, its port is closed.
async fn serve(mut listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    loop {
        let router = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        tokio::select! {
            ended = axum::serve(listener, router) => drop::<io::Result<()>>(ended),
            () = shared.goes_down.notified() => {}
        }
        SystemClock.sleep(DOWNTIME).await;
        listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            // Another program has taken the port: the missing deliveries break the promise.
            Err(_) => return,
        };
        shared.seen().is_down = false;
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    match shared.answer(&headers, &body) {
        Answer::Accepted => StatusCode::NO_CONTENT,
        Answer::Status(status) => status,
        Answer::Hang => std::future::pending().await,
    }
}
