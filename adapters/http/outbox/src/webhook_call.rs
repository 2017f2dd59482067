//! The extractor of the routes of webhooks.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use handover_outbox::operations::Operator;
use handover_outbox::webhooks::Webhooks;

use crate::operator_call::OperatorCall;
use crate::refusal::Refusal;

/// The webhooks and the operator who sent the request.
pub(crate) struct WebhookCall {
    pub(crate) webhooks: Webhooks,
    pub(crate) operator: Operator,
}

impl<S: Send + Sync> FromRequestParts<S> for WebhookCall {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let OperatorCall { operator, .. } = OperatorCall::from_request_parts(parts, state).await?;
        let webhooks = parts.extensions.get::<Webhooks>().cloned();
        let webhooks = webhooks.ok_or_else(|| Refusal::internal(&"the route has no webhooks"))?;
        Ok(WebhookCall { webhooks, operator })
    }
}
