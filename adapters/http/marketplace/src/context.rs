//! Authentication: the middleware that verifies tokens, and the extractors that create the context of a command.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_events::TenantId;
use handover_events::Trace;
use marketplace::{Actor, CommandContext};

use crate::auth::TokenError;
use crate::edge::Edge;
use crate::envelope::Code;
use crate::header_names::X_IDEMPOTENCY_KEY;
use crate::messages;
use crate::refusal::Refusal;

/// An authenticated caller, and the dependencies of the routes. The other caller types contain the dependencies, too.
pub(crate) struct Caller(pub(crate) Arc<Edge>, pub(crate) CommandContext);

/// An authenticated caller with an idempotency key: without a key, a retry cannot be distinguished from a second order
/// or payment.
pub(crate) struct KeyedCaller(pub(crate) Arc<Edge>, pub(crate) CommandContext);

/// An authenticated caller with the role operator or platform.
pub(crate) struct Operator(pub(crate) Arc<Edge>, pub(crate) CommandContext);

/// The payment gateway. The route verifies its signature with [`crate::body::SignedBody`].
pub(crate) struct Gateway(pub(crate) Arc<Edge>, pub(crate) CommandContext);

/// Reason why a request is not authenticated.
#[derive(Debug, Clone)]
enum Unauthenticated {
    Missing,
    /// Several `Authorization` headers: proxies and this service could choose different ones.
    Repeated,
    Invalid(TokenError),
}

/// Middleware that authenticates each request once. It rejects no request, because the rate limit counts
/// unauthenticated requests first; the extractors reject them.
pub(crate) async fn authenticate(
    State(edge): State<Arc<Edge>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(trace) = request.extensions().get::<Trace>().cloned() else {
        return missing_trace().into_response();
    };
    let verified = bearer(request.headers())
        .and_then(|token| edge.tokens.verify(token, edge.app.now()).map_err(Unauthenticated::Invalid));
    match verified {
        Ok(claims) => {
            request.extensions_mut().insert(CommandContext {
                actor: Actor::User { id: claims.user, roles: claims.roles },
                tenant: claims.tenant,
                trace,
                idempotency: None,
            });
        }
        Err(reason) => {
            request.extensions_mut().insert(reason);
        }
    }
    next.run(request).await
}

impl FromRequestParts<Arc<Edge>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        match (parts.extensions.get::<CommandContext>(), parts.extensions.get::<Unauthenticated>()) {
            (Some(context), _) => Ok(Caller(Arc::clone(edge), context.clone())),
            (None, Some(reason)) => Err(reason.into()),
            (None, None) => Err(Refusal::internal(&"the route has no authentication layer")),
        }
    }
}

impl FromRequestParts<Arc<Edge>> for KeyedCaller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let Caller(edge, context) = Caller::from_request_parts(parts, edge).await?;
        if context.idempotency.is_some() {
            Ok(KeyedCaller(edge, context))
        } else {
            Err(Refusal::field(X_IDEMPOTENCY_KEY, messages::REQUIRED))
        }
    }
}

impl FromRequestParts<Arc<Edge>> for Operator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let Caller(edge, context) = Caller::from_request_parts(parts, edge).await?;
        context.operator()?;
        Ok(Operator(edge, context))
    }
}

/// Middleware of the operator routes. Each route also checks the role; this check runs before the idempotency layer, so
/// that a stored response is not replayed to a caller who has lost the role.
pub(crate) async fn require_operator(
    State(edge): State<Arc<Edge>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match Operator::from_request_parts(&mut parts, &edge).await {
        Ok(Operator(..)) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl FromRequestParts<Arc<Edge>> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        // The gateway belongs to no tenant: the use case uses the tenant of the payment or refund.
        let tenant = TenantId::DEFAULT;
        let trace = trace(parts)?;
        let context = CommandContext { actor: Actor::Gateway, tenant, trace, idempotency: None };
        Ok(Gateway(Arc::clone(edge), context))
    }
}

impl From<&Unauthenticated> for Refusal {
    fn from(reason: &Unauthenticated) -> Refusal {
        match reason {
            Unauthenticated::Missing => Refusal::new(Code::NotAuthenticated, messages::NOT_AUTHENTICATED),
            Unauthenticated::Repeated => {
                Refusal::new(Code::NotAuthenticated, messages::repeated_header("Authorization"))
            }
            Unauthenticated::Invalid(error) => {
                // Only the log contains the reason: the response is the same for every invalid token.
                tracing::info!(reason = %error, code = Code::NotAuthenticated.as_str(), "authentication: token refused");
                Refusal::bad_token()
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Unauthenticated::Missing)?;
    if values.next().is_some() {
        return Err(Unauthenticated::Repeated);
    }
    let parts = value.to_str().ok().and_then(|text| text.split_once(' '));
    let token = parts.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map(|(_, token)| token.trim()).ok_or(Unauthenticated::Missing)
}

fn trace(parts: &Parts) -> Result<Trace, Refusal> {
    let trace = parts.extensions.get::<Trace>().cloned();
    trace.ok_or_else(missing_trace)
}

fn missing_trace() -> Refusal {
    Refusal::internal(&"the route has no trace layer")
}
