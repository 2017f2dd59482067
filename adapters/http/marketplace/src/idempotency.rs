//! Idempotency keys: a request with a key is executed once; a repeated request gets the stored response.
//!
//! The layer runs after authentication and prepares the request; the caller type of the route claims the key: [`Command`],
//! whose transaction stores the response, or [`Afterwards`]. An unauthenticated request claims no key. If the route rejects
//! the request, the key is released.
//!
//! [`Command`]: crate::command::Command
//! [`Afterwards`]: crate::command::Afterwards

use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::{FromRequest, OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_http::body::RawBody;
use handover_http::envelope::{Code, Reply};
use handover_http::header_names::{KEY_HEADERS, REPLAYED, X_IDEMPOTENCY_KEY};
use handover_http::refusal::Refusal;
use handover_http::response::Done;
use handover_http::values;
use handover_outbox::ports::StoreError;
use marketplace::CommandContext;
use marketplace::idempotency::{Claim, ClaimOutcome, IdempotentRequest};
use marketplace::ports::{IdempotencyError, RequestScope, StoredResponse};
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

/// A request with an idempotency key, and the claim of its route.
#[derive(Clone)]
struct KeyedRequest {
    request: IdempotentRequest,
    claim: Arc<OnceLock<Claim>>,
}

/// Whether the request has an idempotency key.
pub(crate) fn has_key(parts: &Parts) -> bool {
    parts.extensions.get::<KeyedRequest>().is_some()
}

/// Claims the key of the request, if it has one. The rejection is the stored response, or the reason why the key cannot be
/// claimed.
pub(crate) async fn claim_key<C, F>(
    parts: &Parts,
    begin: impl FnOnce(IdempotentRequest) -> F,
) -> Result<Option<C>, Response>
where
    C: Into<Claim> + Clone,
    F: Future<Output = Result<ClaimOutcome<C>, IdempotencyError>>,
{
    let Some(KeyedRequest { request, claim }) = parts.extensions.get().cloned() else { return Ok(None) };
    match begin(request).await {
        Ok(ClaimOutcome::New(claimed)) => {
            claim.get_or_init(|| claimed.clone().into());
            Ok(Some(claimed))
        }
        Ok(ClaimOutcome::Replayed(stored)) => Err(replay(stored).unwrap_or_else(IntoResponse::into_response)),
        Err(error) => Err(RouteError::from(error).into_response()),
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

/// Runs the route, and stores its response if it has claimed the key.
async fn process(request: Request, claim: Arc<OnceLock<Claim>>, next: Next) -> Response {
    let response = next.run(request).await;
    let outcome = match (claim.get(), to_stored(&response)) {
        (Some(claim), Some(stored)) => claim.done(stored).await,
        (Some(claim), None) => claim.refused().await,
        (None, _) => Ok(()),
    };
    if let Err(error) = outcome {
        warn!(code = "idempotency.not-stored", %error, "idempotency: cannot store the outcome of the request; its key stays claimed until the lease expires");
    }
    response
}

/// The response to store; `None` if the request was rejected.
fn to_stored(response: &Response) -> Option<StoredResponse> {
    let reply = response.extensions().get::<Reply>().filter(|reply| reply.code == Code::DONE)?;
    let text = reply.data.storable()?.get().to_owned();
    Some(StoredResponse { code: response.status().as_u16(), text })
}

/// Builds the response to a repeated request from the stored one.
fn replay(stored: StoredResponse) -> Result<Response, Refusal> {
    let mut response = Done::stored(stored.code, stored.text)?.into_response();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
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
