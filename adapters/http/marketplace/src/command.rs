//! Callers of routes that run a command: their types say who claims the idempotency key and stores the response.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use handover_http::header_names::X_IDEMPOTENCY_KEY;
use handover_http::refusal::Refusal;
use marketplace::CommandContext;
use marketplace::idempotency::{Call, UnitClaim};
use marketplace_domain::Order;

use crate::caller::caller;
use crate::edge::Edge;
use crate::idempotency::{ResponseTo, Updated, claim_for_command, claim_now, has_key};
use crate::messages;
use crate::openapi::RequiredKey;
use crate::refusal::RouteError;

/// An authenticated caller of a command that stores the response `R` in its transaction.
pub(crate) struct Command<R>(pub(crate) Arc<Edge>, pub(crate) StoredCall<R>);

/// A command whose response is `R`, with the claim of its idempotency key.
pub(crate) struct StoredCall<R> {
    context: CommandContext,
    claim: Option<UnitClaim>,
    response: PhantomData<fn() -> R>,
}

impl<'a, T, R: ResponseTo<T>> From<&'a StoredCall<R>> for Call<'a, T> {
    fn from(call: &'a StoredCall<R>) -> Call<'a, T> {
        Call::new(&call.context, call.claim.as_ref(), R::encode)
    }
}

// A route that forgets to store its response does not compile: neither the context of a `Caller` nor a `StoredCall` whose
// response cannot encode the result of the command is a `Call`. If one of them became a `Call`, the choice of
// `NotCall<_>` below would be ambiguous.
const _: fn() = || {
    trait NotCall<Case> {
        fn checked() {}
    }
    struct Any;
    struct IsCall;
    struct Unrelated;
    impl<C> NotCall<Any> for C {}
    impl<C: Into<Call<'static, Order>>> NotCall<IsCall> for C {}
    <&Arc<CommandContext> as NotCall<_>>::checked();
    <&StoredCall<Updated<Unrelated>> as NotCall<_>>::checked();
};

/// An authenticated caller of a route that uses more than one transaction. Its response is stored afterwards, in the store
/// that `idempotency.store` selects.
pub(crate) struct Afterwards(pub(crate) Arc<Edge>, pub(crate) CommandContext);

impl<R> FromRequestParts<Arc<Edge>> for Command<R> {
    type Rejection = RouteError;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, RouteError> {
        let context = caller(parts)?.clone();
        let claim = claim_for_command(parts, &edge.app.idempotency).await?;
        Ok(Command(Arc::clone(edge), StoredCall { context, claim, response: PhantomData }))
    }
}

impl<S: Sync> FromRequestParts<S> for RequiredKey {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        caller(parts)?;
        if has_key(parts) {
            Ok(RequiredKey)
        } else {
            Err(Refusal::field(X_IDEMPOTENCY_KEY, messages::REQUIRED))
        }
    }
}

impl FromRequestParts<Arc<Edge>> for Afterwards {
    type Rejection = RouteError;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Self, RouteError> {
        let context = caller(parts)?.clone();
        claim_now(parts, &edge.app.idempotency).await?;
        Ok(Afterwards(Arc::clone(edge), context))
    }
}
