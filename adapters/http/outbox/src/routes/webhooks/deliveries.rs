//! List and show deliveries, send them again, send an example.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{DeliveryFilter, DeliveryState};

use super::{ENDPOINT, NOT_FOUND};
use crate::bodies;
use crate::body::{EmptyBody, JsonBody, NoFields};
use crate::openapi::{Paging, kinds};
use crate::path::{PathDelivery, PathEndpoint};
use crate::queries;
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::views::{RecoveredView, WebhookDeliveryView};
use crate::webhook_call::WebhookCall;

type WebhookDeliveryPage = PageView<WebhookDeliveryView>;

/// Description of the path parameter `deliveryId`.
const DELIVERY: &str = "The delivery";

queries! {
    DeliveryQuery {
        state: DeliveryState = kinds::DeliveryState, "Only deliveries in this state";
        r#type: String = kinds::WebhookType, "Only deliveries of events of this type";
        status: u16 = kinds::HttpStatus, "Only deliveries whose last response had this HTTP status";
        from: DateTime<Utc> = kinds::Time, "Earliest time at which the delivery was written (inclusive)";
        to: DateTime<Utc> = kinds::Time, "Latest time at which the delivery was written (exclusive)";
    }
}

/// Lists the deliveries of a webhook endpoint, newest first.
#[utoipa::path(
    get,
    path = "/webhooks/{id}/deliveries",
    operation_id = "webhookDeliveries",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT), DeliveryQuery, Paging),
    responses(
        (status = 200, description = "A page of deliveries", body = WebhookDeliveryPage),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn page(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    parameters: Parameters,
) -> RouteResult {
    let (query, before, limit) = parameters.page::<DeliveryQuery, _>()?;
    let DeliveryQuery { state, r#type: event_type, status, from, to } = query;
    let filter = DeliveryFilter { state, event_type, status, from, to, ..DeliveryFilter::default() };
    let page = webhooks.deliveries(&operator, id, &filter, before, limit).await?;
    Done::page(page, WebhookDeliveryView::from)
}

/// Returns a delivery with its attempts.
#[utoipa::path(
    get,
    path = "/webhooks/{id}/deliveries/{deliveryId}",
    operation_id = "webhookDelivery",
    tag = "webhooks",
    params(
        ("id" = kinds::WebhookId, Path, description = ENDPOINT),
        ("deliveryId" = kinds::Id, Path, description = DELIVERY),
    ),
    responses(
        (status = 200, description = "The delivery", body = WebhookDeliveryView),
        (status = 404, description = "Endpoint or delivery not found in a tenant accessible to the caller"),
    ),
)]
pub(crate) async fn one(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathDelivery { endpoint, delivery }: PathDelivery,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let shown = webhooks.delivery(&operator, endpoint, delivery).await?;
    Done::ok(&WebhookDeliveryView::from(shown))
}

/// Sends an event to a webhook endpoint again.
///
/// The new delivery has requests with the header `handover-redelivery: true`.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/deliveries/{deliveryId}/redeliver",
    operation_id = "redeliverWebhook",
    tag = "webhooks",
    params(
        ("id" = kinds::WebhookId, Path, description = ENDPOINT),
        ("deliveryId" = kinds::Id, Path, description = DELIVERY),
    ),
    request_body(content = Option<EmptyBody>, content_type = "application/json"),
    responses(
        (status = 202, description = "The new delivery", body = WebhookDeliveryView),
        (status = 404, description = "Endpoint or delivery not found in a tenant accessible to the caller"),
    ),
)]
pub(crate) async fn redeliver(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathDelivery { endpoint, delivery }: PathDelivery,
    NoFields: NoFields,
) -> RouteResult {
    let delivery = webhooks.redeliver(&operator, endpoint, delivery).await?;
    Done::accepted(&WebhookDeliveryView::from(delivery))
}

/// Sends the example of an event type to a webhook endpoint.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/test",
    operation_id = "testWebhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    request_body = bodies::TestRequest,
    responses(
        (status = 202, description = "The delivery", body = WebhookDeliveryView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn test(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    JsonBody(body): JsonBody<bodies::TestRequest>,
) -> RouteResult {
    let event_type = body.command(|body, _| body.r#type)?;
    let delivery = webhooks.test(&operator, id, &event_type).await?;
    Done::accepted(&WebhookDeliveryView::from(delivery))
}

/// Sends the failed deliveries of a period again.
///
/// With `includeMissing`, events that the endpoint asks for and has no delivery of are delivered as well. One call searches at most
/// 100,000 ids of the outbox; `more` says whether to continue with `nextCursor`. Events in the archive are not delivered.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/recover",
    operation_id = "recoverWebhook",
    tag = "webhooks",
    params(("id" = kinds::WebhookId, Path, description = ENDPOINT)),
    request_body = bodies::RecoverRequest,
    responses(
        (status = 200, description = "The result", body = RecoveredView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(crate) async fn recover(
    WebhookCall { webhooks, operator }: WebhookCall,
    PathEndpoint(id): PathEndpoint,
    JsonBody(body): JsonBody<bodies::RecoverRequest>,
) -> RouteResult {
    let command = body.command(bodies::RecoverRequest::command)?;
    let recovered = webhooks.recover(&operator, id, command).await?;
    Done::ok(&RecoveredView::from(recovered))
}
