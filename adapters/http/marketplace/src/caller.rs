//! The authenticated caller of a request.

use axum::http::request::Parts;
use handover_http::Unauthenticated;
use handover_http::refusal::Refusal;
use marketplace::CommandContext;

/// The context of an authenticated caller.
pub(crate) fn caller(head: &Parts) -> Result<&CommandContext, Refusal> {
    match (head.extensions.get::<CommandContext>(), head.extensions.get::<Unauthenticated>()) {
        (Some(context), _) => Ok(context),
        (None, Some(reason)) => Err(reason.into()),
        (None, None) => Err(Refusal::internal(&"the route has no authentication layer")),
    }
}
