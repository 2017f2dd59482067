//! `/api/v1/orders/{id}/timeline`: everything that happened to an order, for its parties and for operators.

use std::sync::Arc;

use axum::extract::State;
use marketplace::use_cases::operations;
use marketplace_domain::OrderId;

use crate::context::Caller;
use crate::document::kinds;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::path::PathId;
use crate::query::Parameters;
use crate::views::TimelineView;

/// Shows everything that happened to an order.
///
/// Its parties and operators may.
#[utoipa::path(
    get,
    path = "/{id}/timeline",
    operation_id = "timeline",
    tag = "orders",
    params(
        ("id" = kinds::Id, Path, description = "The order"),
    ),
    responses(
        (status = 200, description = "What happened, in order of time", body = TimelineView),
        (status = 404, description = "There is no such order of yours"),
    ),
)]
pub(super) async fn timeline(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<OrderId>,
    parameters: Parameters,
) -> Answer {
    parameters.finish()?;
    let timeline = operations::timeline(&edge.app, &context, None, id).await?;
    Done::ok(&TimelineView::from(timeline))
}
