//! A request under an idempotency key reaches its route once; repeats are answered what the first one was (spec §4).
//!
//! It stands between authentication and the routes: who is refused at the door claims nothing, and what a route refuses
//! frees its key again. Routes that act in more than one transaction have their answer kept after it, and their keys may be
//! elsewhere than in the database ([`ANSWERED_AFTERWARDS`]).

use std::panic::resume_unwind;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_outbox::ports::StoreError;
use marketplace::CommandContext;
use marketplace::idempotency::{self, Begun, KeyedRequest};
use marketplace::ports::{RequestScope, StoredAnswer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::warn;

use crate::body::RawBody;
use crate::context::Caller;
use crate::edge::Edge;
use crate::envelope::{Code, Done, Reply, ReplyData};
use crate::messages;
use crate::refusal::Refusal;
use crate::routes::{ANSWERED_AFTERWARDS, answered};

/// The name that refusals use.
pub(crate) const X_IDEMPOTENCY_KEY: &str = "X-Idempotency-Key";
/// The header of the specification and that of the IETF draft (draft-ietf-httpapi-idempotency-key-header).
const NAMES: [HeaderName; 2] =
    [HeaderName::from_static("x-idempotency-key"), HeaderName::from_static("idempotency-key")];
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The layer of every route on which somebody signed in creates or moves something.
pub(crate) async fn once(State(edge): State<Arc<Edge>>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !NAMES.iter().any(|name| request.headers().contains_key(name)) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(Caller(context)) = Caller::from_request_parts(&mut parts, &edge).await else {
        // The route refuses, in its own words.
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
    // Routers nested in others see the end of the path only.
    let path = parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |whole| whole.path());
    let route = format!("{} {path}", parts.method);
    let asked = match asked(&context, route, key, &body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    // A task of its own: whoever hangs up or is told that it took too long finds its answer when it asks again.
    let tasks = edge.app.tx.tasks.clone();
    let answering = async move {
        let request = Request::from_parts(parts, Body::from(body));
        answer(&edge, request, context, asked, next).await.unwrap_or_else(IntoResponse::into_response)
    };
    match tasks.spawn(answering).await {
        Ok(Some(response)) => response,
        Ok(None) => Refusal::from(StoreError::Unavailable("the process is ending".into())).into_response(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(error) => Refusal::fault(&error).into_response(),
        },
    }
}

/// Claims the key, has the route answer and keeps that; or repeats what it answered.
async fn answer(
    edge: &Edge,
    mut request: Request,
    mut context: CommandContext,
    asked: KeyedRequest,
    next: Next,
) -> Result<Response, Refusal> {
    let begun = if is_answered_afterwards(&request) {
        idempotency::begin_afterwards(&edge.app, asked).await?
    } else {
        idempotency::begin(&edge.app, asked, answered).await?
    };
    let ticket = match begun {
        Begun::First(ticket) => ticket,
        Begun::Before(answer) => return again(answer),
    };
    context.idempotency = Some(ticket.clone());
    request.extensions_mut().insert(context);
    let response = next.run(request).await;
    let outcome = match stored(&response) {
        Some(answer) => ticket.done(answer).await,
        None => ticket.refused().await,
    };
    if let Err(error) = outcome {
        warn!(%error, "an idempotency key stays claimed until its lease ends");
    }
    Ok(response)
}

fn is_answered_afterwards(request: &Request) -> bool {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    ANSWERED_AFTERWARDS.contains(&format!("{} {path}", request.method()).as_str())
}

/// The answer that is to be kept, if the request was done.
fn stored(response: &Response) -> Option<StoredAnswer> {
    match response.extensions().get::<Reply>()? {
        Reply { code: Code::Done, data: ReplyData::Value(data), .. } => {
            Some(StoredAnswer { status: response.status().as_u16(), data: data.to_string() })
        }
        Reply { .. } => None,
    }
}

/// What the first one was answered.
fn again(answer: StoredAnswer) -> Result<Response, Refusal> {
    let data: Value = serde_json::from_str(&answer.data).map_err(|error| Refusal::fault(&error))?;
    let mut response = Done::stored(answer.status, data)?.into_response();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// The key that the request names, by either name.
fn key(headers: &HeaderMap) -> Result<String, Refusal> {
    let [name, alias] = NAMES;
    let mut values = headers.get_all(name).iter().chain(headers.get_all(alias));
    let first = values.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if values.any(|other| other.as_bytes() != first.as_bytes()) {
        return Err(Refusal::field(X_IDEMPOTENCY_KEY, messages::TWICE));
    }
    let legal = (1..=RequestScope::MAX_KEY_CHARS).contains(&first.len())
        && first.bytes().all(|b| b.is_ascii_graphic());
    if legal {
        Ok(first.to_owned())
    } else {
        Err(Refusal::field(X_IDEMPOTENCY_KEY, messages::visible_ascii(RequestScope::MAX_KEY_CHARS)))
    }
}

fn asked(context: &CommandContext, route: String, key: String, body: &[u8]) -> Result<KeyedRequest, Refusal> {
    let user = context.user().ok_or_else(|| Refusal::fault(&"a caller is no user"))?;
    // No route of ours is as long.
    if route.len() > RequestScope::MAX_ROUTE_CHARS {
        return Err(Refusal::not_found("route"));
    }
    Ok(KeyedRequest {
        scope: RequestScope { tenant: context.tenant, user, route, key },
        body_hash: body_hash(body),
        trace_id: context.trace.trace_id.clone(),
    })
}

/// SHA-256 of the body as it would be written with its names sorted, without spaces and with the shortest numbers: what
/// a client may write differently when it asks again. What is no JSON counts as it is.
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
