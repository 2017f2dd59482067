//! `webhook listen`: a receiver for a first try. It prints requests and answers 204, or 401 if the signature is wrong.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use handover_outbox::ports::Clock as _;
use handover_runtime::terminal::{note, say};
use handover_system::SystemClock;
use handover_webhooks::{VerifyingKey, verify};
use tokio::net::TcpListener;

use crate::args::WebhookListenArgs;
use crate::failure::CommandFailure;

/// Largest body that is read.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Receives requests until the process is stopped.
pub(crate) async fn listen(arguments: &WebhookListenArgs) -> Result<(), CommandFailure> {
    let failed = |error: std::io::Error| CommandFailure::NotListening {
        port: arguments.port,
        reason: error.to_string(),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    note(&format!("listening on http://{address}; Ctrl-C ends"));
    let keys: Arc<[VerifyingKey]> = arguments.all_keys().into();
    let router = Router::new().fallback(receive).with_state(keys);
    axum::serve(listener, router).await.map_err(failed)
}

async fn receive(State(keys): State<Arc<[VerifyingKey]>>, request: Request) -> StatusCode {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else { return StatusCode::PAYLOAD_TOO_LARGE };
    let now = SystemClock.now();
    let verified = verify(&head.headers, &body, &keys, now);
    let result = verified.as_ref().map_or_else(ToString::to_string, |()| "verified".to_owned());
    let text = String::from_utf8_lossy(&body);
    let printed = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
    let printed: String = printed.collect();
    let is_redelivery = head.headers.contains_key("handover-redelivery");
    let redelivery = if is_redelivery { ", redelivery" } else { "" };
    // Without a reader of the output, the request is still answered.
    let _ = say(&format!("{} {}: {result}{redelivery}\n{printed}\n", head.method, head.uri.path()));
    if verified.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}
