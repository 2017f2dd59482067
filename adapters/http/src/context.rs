//! Who asks: the extractors that turn a token into the circumstances of a command.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use handover_application::{Actor, CommandContext, Role, Trace};
use handover_domain::TenantId;

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

impl FromRequestParts<Arc<Edge>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        if let Some(context) = parts.extensions.get::<CommandContext>() {
            return Ok(Caller(context.clone()));
        }
        let token = bearer(&parts.headers).ok_or(Refusal::new(Code::NotSignedIn, messages::NOT_SIGNED_IN))?;
        let claims = edge.tokens.verify(token, edge.app.now())?;
        Ok(Caller(CommandContext {
            actor: Actor::User { id: claims.user, roles: claims.roles },
            tenant: claims.tenant,
            trace: trace(parts)?,
            idempotency: None,
        }))
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

impl FromRequestParts<Arc<Edge>> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Edge>) -> Result<Self, Refusal> {
        // The gateway knows no tenants: a payment brings its own.
        let (tenant, trace) = (TenantId::DEFAULT, trace(parts)?);
        Ok(Gateway(CommandContext { actor: Actor::Gateway, tenant, trace, idempotency: None }))
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Refusal {
        let message = match error {
            TokenError::Expired => messages::EXPIRED_TOKEN,
            TokenError::NotOurs | TokenError::BadClaim(_) | TokenError::NotSigned => messages::BAD_TOKEN,
        };
        Refusal::new(Code::NotSignedIn, message)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn trace(parts: &Parts) -> Result<Trace, Refusal> {
    let trace = parts.extensions.get::<Trace>().cloned();
    trace.ok_or_else(|| Refusal::fault(&"a route lies outside of the trace layer"))
}
