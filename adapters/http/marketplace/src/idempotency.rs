//! Idempotency keys: a request with a key is executed once; a repeated request gets the stored response.
//!
//! The layer runs after authentication and prepares the request; the caller type of the route says who claims the key:
//! [`Command`], whose transaction claims it and stores the response, or [`Afterwards`]. An unauthenticated request claims no
//! key. If the route rejects the request, the key is free.
//!
//! [`Command`]: crate::command::Command
//! [`Afterwards`]: crate::command::Afterwards

use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::{FromRequest, OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_http::body::RawBody;
use handover_http::envelope::{Code, Reply};
use handover_http::header_names::{KEY_HEADERS, X_IDEMPOTENCY_KEY};
use handover_http::refusal::Refusal;
use handover_http::values;
use handover_outbox::ports::StoreError;
use marketplace::CommandContext;
use marketplace::idempotency::{Claim, ClaimOutcome, Idempotency, IdempotentRequest, UnitClaim};
use marketplace::ports::{RequestScope, StoredResponse};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::warn;

use crate::caller::caller;
use crate::edge::Edge;
use crate::messages;
use crate::refusal::{RouteError, not_found};

/// How a route responds to the result `T` of its command; the stored response is the same.
pub(crate) trait ResponseTo<T> {
    fn encode(result: &T) -> Result<StoredResponse, serde_json::Error>;
}

/// The status, and the view `V` as `data`.
pub(crate) struct StatusAndView<const STATUS: u16, V>(PhantomData<V>);

/// 201 with the view `V`.
pub(crate) type Created<V> = StatusAndView<201, V>;

/// 200 with the view `V`.
pub(crate) type Updated<V> = StatusAndView<200, V>;

impl<const STATUS: u16, T: Clone, V: From<T> + Serialize> ResponseTo<T> for StatusAndView<STATUS, V> {
    fn encode(result: &T) -> Result<StoredResponse, serde_json::Error> {
        Ok(StoredResponse { code: STATUS, text: serde_json::to_string(&V::from(result.clone()))? })
    }
}

/// A request with an idempotency key, and the claim of a route whose response is stored afterwards.
#[derive(Clone)]
struct KeyedRequest {
    request: IdempotentRequest,
    claim: Arc<OnceLock<Claim>>,
}

/// Whether the request has an idempotency key.
pub(crate) fn has_key(parts: &Parts) -> bool {
    parts.extensions.get::<KeyedRequest>().is_some()
}

/// The claim for the command of the request, if the request has a key.
pub(crate) async fn claim_for_command(
    parts: &Parts,
    idempotency: &Idempotency,
) -> Result<Option<UnitClaim>, RouteError> {
    let Some(KeyedRequest { request, .. }) = parts.extensions.get().cloned() else { return Ok(None) };
    new_claim(idempotency.begin(request).await?).map(Some)
}

/// Claims the key of the request, if it has one; the response is stored afterwards.
pub(crate) async fn claim_now(parts: &Parts, idempotency: &Idempotency) -> Result<(), RouteError> {
    let Some(KeyedRequest { request, claim }) = parts.extensions.get().cloned() else { return Ok(()) };
    let claimed = new_claim(idempotency.begin_with_deferred_response(request).await?)?;
    claim.get_or_init(|| claimed);
    Ok(())
}

fn new_claim<C>(outcome: ClaimOutcome<C>) -> Result<C, RouteError> {
    match outcome {
        ClaimOutcome::New(claim) => Ok(claim),
        ClaimOutcome::Replayed(stored) => Err(RouteError::Replayed(stored)),
    }
}

/// Middleware of the user and operator routes; acts on POST requests with an idempotency key.
pub(crate) async fn handle_idempotency_key(
    State(edge): State<Arc<Edge>>,
    request: Request,
    next: Next,
) -> Response {
    let has_key = KEY_HEADERS.iter().any(|name| request.headers().contains_key(name));
    if request.method() != Method::POST || !has_key {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(context) = caller(&parts).cloned() else {
        // Not authenticated: the route rejects the request.
        return next.run(Request::from_parts(parts, body)).await;
    };
    let key = match key(&parts.headers) {
        Ok(key) => key,
        Err(refusal) => return refusal.into_response(),
    };
    let body = match RawBody::from_request(Request::from_parts(parts.clone(), body), &edge).await {
        Ok(RawBody { bytes, .. }) => bytes,
        Err(refusal) => return refusal.into_response(),
    };
    // `OriginalUri` contains the whole path; in a nested router `parts.uri` lacks its prefix.
    let path = parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |original| original.path());
    let route = format!("{} {path}", parts.method);
    let claim = Arc::new(OnceLock::new());
    match keyed_request(&context, route, key, &body) {
        Ok(request) => parts.extensions.insert(KeyedRequest { request, claim: Arc::clone(&claim) }),
        Err(refusal) => return refusal.into_response(),
    };
    // The request runs in a separate task: after a disconnect or a timeout the task still stores the response, and a
    // repeated request gets the stored response.
    let request = Request::from_parts(parts, Body::from(body));
    let tx = &edge.app.tx;
    match tx.spawn(process(request, claim, next)).await {
        Ok(Some(response)) => response,
        Ok(None) => Refusal::from(StoreError::Unavailable("the process is stopping".into())).into_response(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(error) => Refusal::internal(&error).into_response(),
        },
    }
}

/// Runs the route, and stores its response if the route has claimed the key with [`claim_now`].
async fn process(request: Request, claim: Arc<OnceLock<Claim>>, next: Next) -> Response {
    let response = next.run(request).await;
    let outcome = match (claim.get(), to_stored(&response)) {
        (Some(claim), Some(stored)) => claim.done(stored).await,
        // The command may have taken effect, so the key is not free before the lease expires.
        (Some(_), None) if has_unknown_outcome(&response) => Ok(()),
        (Some(claim), None) => claim.refused().await,
        (None, _) => Ok(()),
    };
    if let Err(error) = outcome {
        warn!(code = "idempotency.not-stored", %error, "idempotency: cannot store the outcome of the request; its key stays claimed until the lease expires");
    }
    response
}

fn has_unknown_outcome(response: &Response) -> bool {
    response.extensions().get::<Reply>().is_some_and(|reply| reply.code == Code::OUTCOME_UNKNOWN)
}

/// The response to store; `None` if the request was rejected.
fn to_stored(response: &Response) -> Option<StoredResponse> {
    let reply = response.extensions().get::<Reply>().filter(|reply| reply.code == Code::DONE)?;
    let text = reply.data.storable()?.get().to_owned();
    Some(StoredResponse { code: response.status().as_u16(), text })
}

/// The idempotency key, from either header; different values are an error.
fn key(headers: &HeaderMap) -> Result<String, Refusal> {
    let [name, alias] = KEY_HEADERS;
    let mut values = headers.get_all(name).iter().chain(headers.get_all(alias));
    let first = values.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if values.any(|other| other.as_bytes() != first.as_bytes()) {
        return Err(Refusal::field(X_IDEMPOTENCY_KEY, messages::DUPLICATE));
    }
    values::visible_ascii(first, RequestScope::MAX_KEY_CHARS)
        .map_err(|error| Refusal::field(X_IDEMPOTENCY_KEY, error))
}

fn keyed_request(
    context: &CommandContext,
    route: String,
    key: String,
    body: &[u8],
) -> Result<IdempotentRequest, Refusal> {
    let user = context.user().ok_or_else(|| Refusal::internal(&"the authenticated caller is not a user"))?;
    // Not found, because the path of every existing route is shorter than this limit.
    if route.len() > RequestScope::MAX_ROUTE_CHARS {
        return Err(not_found("route"));
    }
    Ok(IdempotentRequest {
        scope: RequestScope { tenant: context.tenant, user, route, key },
        body_hash: body_hash(body),
        trace_id: context.trace.trace_id.clone(),
    })
}

/// SHA-256 of the body in canonical form: names sorted, no whitespace, shortest numbers. A client may format a repeated
/// request differently. A body that is not JSON is hashed unchanged.
fn body_hash(body: &[u8]) -> String {
    let digest = match serde_json::from_slice::<Value>(body) {
        Ok(value) => {
            let mut text = String::with_capacity(body.len());
            canonical(&value, &mut text);
            Sha256::digest(text)
        }
        Err(_) => Sha256::digest(body),
    };
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (n, (name, value)) in fields.into_iter().enumerate() {
                text.push_str(if n == 0 { "" } else { "," });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                text.push_str(if n == 0 { "" } else { "," });
                canonical(item, text);
            }
            text.push(']');
        }
        Value::Number(number) => {
            let number = number.to_string();
            let is_plain = number.contains('.') && !number.contains(['e', 'E']);
            text.push_str(if is_plain {
                number.trim_end_matches('0').trim_end_matches('.')
            } else {
                &number
            });
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}
