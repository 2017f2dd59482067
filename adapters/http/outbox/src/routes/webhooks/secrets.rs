//! The calls that return a secret: create an endpoint, replace its secret.

use axum::http::StatusCode;
use handover_outbox::webhooks::NewEndpoint;

use super::{ENDPOINT, NOT_FOUND};
use crate::bodies;
use crate::body::{JsonBody, OptionalBody};
use crate::openapi::{TENANT_NOT_FOUND, kinds};
use crate::path::PathEndpoint;
use crate::refusal::Refusal;
use crate::response::DoneWithSecret;
use crate::views::WebhookWithSecretView;
use crate::webhook_call::WebhookCall;

/// Creates a webhook endpoint.
///
/// The response shows its secret, once.
#[utoipa::path(
    post,
    path = "/webhooks",
    operation_id = "createWebhook",
    tag = "webhooks",
    request_body = bodies::NewWebhook,
    responses(
        (status = 201, description = "The endpoint and its secret", body = WebhookWithSecretView),
        (status = 404, description = TENANT_NOT_FOUND),
        (status = 409, description = "The tenant has the maximum number of endpoints", extensions(("x-code" = json!("A0605")))),
    ),
)]
pub(crate) async fn create(
    WebhookCall { webhooks, operator }: WebhookCall,
    JsonBody(body): JsonBody<bodies::NewWebhook>,
) -> Result<DoneWithSecret, Refusal> {
    let (endpoint, tenant) = body.command(bodies::NewWebhook::change)?;
    let NewEndpoint { endpoint, secret } = webhooks.create(&operator, tenant, endpoint).await?;
    let now = webhooks.outbox.now();
    DoneWithSecret::new(StatusCode::CREATED, secret.shown, |secret| {
        WebhookWithSecretView::new(endpoint.clone(), now, secret)
    })
}

/// Replaces the secret of a webhook endpoint.
///
/// The response shows the new secret, once. Until the overlap has passed, requests are also signed with the previous one.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/rotate-secret",
    operation_id = "rotateWebhookSecret",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    request_body(content = Option<bodies::RotateSecretRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The endpoint and its new secret", body = WebhookWithSecretView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn rotate(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    OptionalBody(body): OptionalBody<bodies::RotateSecretRequest>,
) -> Result<DoneWithSecret, Refusal> {
    let overlap_hours = body.command(|body, _| body.overlap_hours)?;
    let NewEndpoint { endpoint, secret } = webhooks.rotate_secret(&operator, id, overlap_hours).await?;
    let now = webhooks.outbox.now();
    DoneWithSecret::new(StatusCode::OK, secret.shown, |secret| {
        WebhookWithSecretView::new(endpoint.clone(), now, secret)
    })
}
