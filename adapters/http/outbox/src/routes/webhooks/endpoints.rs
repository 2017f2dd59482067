//! List, show, change, enable, disable and delete endpoints; list the event types.

use handover_events::TenantId;
use handover_outbox::Page;

use super::{ENDPOINT, NOT_FOUND};
use crate::bodies;
use crate::body::{JsonBody, NoFields, OptionalBody};
use crate::openapi::{TENANT, TENANT_NOT_FOUND, kinds};
use crate::path::PathEndpoint;
use crate::queries;
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::views::{OfferedTypeView, WebhookView};
use crate::webhook_call::WebhookCall;

type WebhookPage = PageView<WebhookView>;
type WebhookEventTypePage = PageView<OfferedTypeView>;

queries! {
    WebhookQuery {
        tenant_id: TenantId = kinds::Id, TENANT;
    }
}

/// Lists the webhook endpoints of a tenant, oldest first.
#[utoipa::path(
    get,
    path = "/webhooks",
    operation_id = "webhooks",
    tag = "webhooks",
    params(WebhookQuery),
    responses(
        (status = 200, description = "The endpoints", body = WebhookPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn list(
    WebhookCall { webhooks, operator }: WebhookCall,
    parameters: Parameters,
) -> RouteResult {
    let WebhookQuery { tenant_id } = parameters.query()?;
    let now = webhooks.outbox.now();
    let items = webhooks.list(&operator, tenant_id).await?;
    Done::page(Page { items, next: None }, |endpoint| WebhookView::new(endpoint, now))
}

/// Lists the event types that endpoints can ask for.
#[utoipa::path(
    get,
    path = "/webhooks/event-types",
    operation_id = "webhookEventTypes",
    tag = "webhooks",
    responses((status = 200, description = "The event types", body = WebhookEventTypePage)),
)]
pub(crate) async fn event_types(
    WebhookCall { webhooks, .. }: WebhookCall,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let items = webhooks.offer.types().collect();
    Done::page(Page { items, next: None }, OfferedTypeView::from)
}

/// Returns a webhook endpoint.
#[utoipa::path(
    get,
    path = "/webhooks/{id}",
    operation_id = "webhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    responses(
        (status = 200, description = "The endpoint", body = WebhookView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn show(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let details = webhooks.show(&operator, id).await?;
    Done::ok(&WebhookView::with_details(details, webhooks.outbox.now()))
}

/// Changes a webhook endpoint.
#[utoipa::path(
    patch,
    path = "/webhooks/{id}",
    operation_id = "changeWebhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    request_body = bodies::WebhookChange,
    responses(
        (status = 200, description = "The endpoint", body = WebhookView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn update(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    JsonBody(body): JsonBody<bodies::WebhookChange>,
) -> RouteResult {
    let change = body.command(bodies::WebhookChange::change)?;
    let endpoint = webhooks.update(&operator, id, change).await?;
    Done::ok(&WebhookView::new(endpoint, webhooks.outbox.now()))
}

/// Deletes a webhook endpoint.
///
/// Its pending deliveries are cancelled; its deliveries can still be listed.
#[utoipa::path(
    delete,
    path = "/webhooks/{id}",
    operation_id = "deleteWebhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    responses(
        (status = 200, description = "The deleted endpoint", body = WebhookView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn delete(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let endpoint = webhooks.delete(&operator, id).await?;
    Done::ok(&WebhookView::new(endpoint, webhooks.outbox.now()))
}

/// Enables a webhook endpoint.
///
/// Deliveries that were written while it was disabled are sent.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/enable",
    operation_id = "enableWebhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    request_body(content = Option<crate::body::EmptyBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The endpoint", body = WebhookView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn enable(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    NoFields: NoFields,
) -> RouteResult {
    let endpoint = webhooks.enable(&operator, id).await?;
    Done::ok(&WebhookView::new(endpoint, webhooks.outbox.now()))
}

/// Disables a webhook endpoint.
///
/// Its deliveries are written, but not sent.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/disable",
    operation_id = "disableWebhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    request_body(content = Option<bodies::DisableRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The endpoint", body = WebhookView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn disable(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    OptionalBody(body): OptionalBody<bodies::DisableRequest>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let endpoint = webhooks.disable(&operator, id, reason).await?;
    Done::ok(&WebhookView::new(endpoint, webhooks.outbox.now()))
}
