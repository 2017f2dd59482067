//! Who asks: the extractors that turn a token into the circumstances of a command.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_events::TenantId;
use handover_events::Trace;
use marketplace::{Actor, CommandContext, Role};

use crate::auth::TokenError;
use crate::edge::Edge;
use crate::envelope::Code;
use crate::messages;
use crate::once::X_IDEMPOTENCY_KEY;
use crate::refusal::Refusal;

/// A signed-in caller.
pub(crate) struct Caller(pub(crate) CommandContext);

/// A signed-in caller who names an idempotency key: without one, nobody can tell a repeat from a second order.
pub(crate) struct KeyedCaller(pub(crate) CommandContext);

/// A signed-in caller who is an operator.
pub(crate) struct Operator(pub(crate) CommandContext);

/// The payment gateway; its signature is over the body, which the route verifies.
pub(crate) struct Gateway(pub(crate) CommandContext);

/// Somebody whose token is no good, or who has none.
#[derive(Debug, Clone)]
enum Stranger {
    NoToken,
    BadToken(TokenError),
}

/// The layer that looks who asks, once for each request. It refuses nobody: strangers are to be counted first.
pub(crate) async fn authenticated(
    State(edge): State<Arc<Edge>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(trace) = request.extensions().get::<Trace>().cloned() else {
        return untraced().into_response();
    };
    let verified = bearer(request.headers())
        .ok_or(Stranger::NoToken)
        .and_then(|token| edge.tokens.verify(token, edge.app.now()).map_err(Stranger::BadToken));
    match verified {
        Ok(claims) => drop(request.extensions_mut().insert(CommandContext {
            actor: Actor::User { id: claims.user, roles: claims.roles },
            tenant: claims.tenant,
            trace,
            idempotency: None,
        })),
        Err(stranger) => drop(request.extensions_mut().insert(stranger)),
    }
    next.run(request).await
}

impl FromRequestParts<Arc<Edge>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Edge>) -> Result<Self, Refusal> {
        match (parts.extensions.get::<CommandContext>(), parts.extensions.get::<Stranger>()) {
            (Some(context), _) => Ok(Caller(context.clone())),
            (None, Some(stranger)) => Err(stranger.into()),
            (None, None) => Err(Refusal::fault(&"a route lies outside of the authentication layer")),
        }
    }
}

impl FromRequestParts<Arc<Edge>> for KeyedCaller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let Caller(context) = Caller::from_request_parts(parts, edge).await?;
        if context.idempotency.is_some() {
            Ok(KeyedCaller(context))
        } else {
            Err(Refusal::field(X_IDEMPOTENCY_KEY, messages::REQUIRED))
        }
    }
}

impl FromRequestParts<Arc<Edge>> for Operator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let Caller(context) = Caller::from_request_parts(parts, edge).await?;
        if context.has(Role::Operator) || context.has(Role::Platform) {
            Ok(Operator(context))
        } else {
            Err(Refusal::new(Code::NotAllowed, messages::NOT_ALLOWED))
        }
    }
}

/// The layer of operators' calls. Each asks for the role itself; this asks before an answer is repeated to somebody who
/// has it no more.
pub(crate) async fn operators(State(edge): State<Arc<Edge>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match Operator::from_request_parts(&mut parts, &edge).await {
        Ok(Operator(_)) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl FromRequestParts<Arc<Edge>> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Edge>) -> Result<Self, Refusal> {
        // The gateway knows no tenants: a payment brings its own.
        let (tenant, trace) = (TenantId::DEFAULT, trace(parts)?);
        Ok(Gateway(CommandContext { actor: Actor::Gateway, tenant, trace, idempotency: None }))
    }
}

impl From<&Stranger> for Refusal {
    fn from(stranger: &Stranger) -> Refusal {
        match stranger {
            Stranger::NoToken => Refusal::new(Code::NotSignedIn, messages::NOT_SIGNED_IN),
            Stranger::BadToken(error) => {
                // The reason is for the operator: the answer is the same for all of them.
                tracing::info!(reason = %error, code = Code::NotSignedIn.as_str(), "authentication: token refused");
                Refusal::bad_token()
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn trace(parts: &Parts) -> Result<Trace, Refusal> {
    let trace = parts.extensions.get::<Trace>().cloned();
    trace.ok_or_else(untraced)
}

fn untraced() -> Refusal {
    Refusal::fault(&"a route lies outside of the trace layer")
}
