//! The extractor of the operators' routes.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use handover_outbox::Outbox;
use handover_outbox::operations::Operator;

use crate::refusal::Refusal;

/// The outbox and the operator who sent the request; the guard of the operators' routes adds it to each request.
#[derive(Clone)]
pub struct OperatorCall {
    /// The outbox.
    pub outbox: Outbox,
    /// The operator.
    pub operator: Operator,
}

impl<S: Send + Sync> FromRequestParts<S> for OperatorCall {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let call = parts.extensions.get::<OperatorCall>().cloned();
        call.ok_or_else(|| Refusal::internal(&"the route has no guard for operators"))
    }
}
