//! Authentication: the middleware that verifies tokens, and the extractors that create the context of a command.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::Extensions;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_events::{TenantId, Trace};
use handover_http::envelope::Code;
use handover_http::refusal::Refusal;
use handover_http::{Claims, RequestId, TokenError, Unauthenticated};
use handover_outbox::operations;
use marketplace::{Actor, CommandContext, Role};
use marketplace_domain::UserId;

use crate::caller::caller;
use crate::edge::Edge;

/// An authenticated caller of a route that runs no command, and the dependencies of the routes. The other caller types
/// contain the dependencies, too. The shared context is no `Call`: a route that runs a command takes
/// [`Command`](crate::command::Command), which says how the response is stored.
pub(crate) struct Caller(pub(crate) Arc<Edge>, pub(crate) Arc<CommandContext>);

/// An authenticated caller with the role operator or platform, of a route that runs no command.
pub(crate) struct Operator(pub(crate) Arc<Edge>, pub(crate) Arc<CommandContext>);

/// The payment gateway. The route verifies its signature with [`crate::body::SignedBody`].
pub(crate) struct Gateway(pub(crate) Arc<Edge>, pub(crate) CommandContext);

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
    let request_id = request_id(request.extensions());
    let verified = edge.tokens.authenticate(request.headers(), edge.app.now());
    match verified.and_then(|claims| context_of(&claims, trace, request_id)) {
        Ok(context) => {
            request.extensions_mut().insert(context);
        }
        Err(reason) => {
            request.extensions_mut().insert(reason);
        }
    }
    next.run(request).await
}

/// Middleware of the users' routes: operators act through their own routes, so that theirs can have a listener of their own.
pub(crate) async fn as_user(mut request: Request) -> Request {
    if let Some(context) = request.extensions_mut().get_mut::<CommandContext>() {
        context.as_user();
    }
    request
}

/// The context of a signed-in user. Unknown roles are ignored.
fn context_of(
    claims: &Claims,
    trace: Trace,
    request_id: Option<String>,
) -> Result<CommandContext, Unauthenticated> {
    let id = UserId::try_from(claims.user);
    let id = id.map_err(|_| Unauthenticated::Invalid(TokenError::InvalidClaim("sub")))?;
    let roles = claims.roles.iter().filter_map(|role| Role::named(role)).collect();
    let actor = Actor::User { id, roles };
    Ok(CommandContext { actor, tenant: claims.tenant, trace, request_id })
}

/// Guard of the operators' routes: the caller that [`authenticate`] has authenticated, with the role of an operator.
pub(crate) fn operator(head: &Parts, _: Trace) -> Result<operations::Operator, Refusal> {
    caller(head)?.operator().map_err(|_| Refusal::of(Code::NOT_ALLOWED))
}

impl FromRequestParts<Arc<Edge>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        caller(parts).map(|context| Caller(Arc::clone(edge), Arc::new(context.clone())))
    }
}

impl FromRequestParts<Arc<Edge>> for Operator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let Caller(edge, context) = Caller::from_request_parts(parts, edge).await?;
        context.operator().map_err(|_| Refusal::of(Code::NOT_ALLOWED))?;
        Ok(Operator(edge, context))
    }
}

impl FromRequestParts<Arc<Edge>> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        // The gateway belongs to no tenant: the use case uses the tenant of the payment or refund.
        let tenant = TenantId::DEFAULT;
        let trace = trace(parts)?;
        let request_id = request_id(&parts.extensions);
        let context = CommandContext { actor: Actor::Gateway, tenant, trace, request_id };
        Ok(Gateway(Arc::clone(edge), context))
    }
}

fn trace(parts: &Parts) -> Result<Trace, Refusal> {
    let trace = parts.extensions.get::<Trace>().cloned();
    trace.ok_or_else(missing_trace)
}

/// The request id that the trace layer has set.
fn request_id(extensions: &Extensions) -> Option<String> {
    extensions.get::<RequestId>().map(|id| id.0.clone())
}

fn missing_trace() -> Refusal {
    Refusal::internal(&"the route has no trace layer")
}
