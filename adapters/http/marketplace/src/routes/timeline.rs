//! `/api/v1/orders/{id}/timeline`: the timeline of an order, for its parties.

use handover_http::query::Parameters;
use handover_http::response::Done;
use marketplace_domain::OrderId;

use crate::context::Caller;
use crate::openapi::kinds;
use crate::path::PathId;
use crate::refusal::RouteResult;
use crate::views::TimelineView;

/// Returns everything that happened to an order, for its parties.
#[utoipa::path(
    get,
    path = "/{id}/timeline",
    operation_id = "timeline",
    tag = "orders",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The entries in chronological order", body = TimelineView),
        (status = 404, description = "Order not found, or not visible to the caller"),
    ),
)]
pub(super) async fn timeline(
    Caller(edge, context): Caller,
    PathId(id): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let timeline = edge.app.operations.timeline(&context, None, id).await?;
    Done::ok(&TimelineView::from(timeline))
}
