//! `/api/v1/ops/refunds`: list refunds, send them to the gateway again, or settle them by hand.

use handover_http::body::JsonBody;
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use marketplace::use_cases::operations::ListRefunds;
use marketplace_domain::{RefundId, RefundStatus};

use crate::bodies;
use crate::command::Command;
use crate::context::Operator;
use crate::idempotency::Updated;
use crate::openapi::kinds;
use crate::path::PathId;
use crate::refusal::RouteResult;
use crate::views::RefundDetailsView;

type RefundDetailsPage = PageView<RefundDetailsView>;

const NOT_FOUND: &str = "Refund not found in a tenant accessible to the caller";

queries! {
    RefundQuery {
        state: RefundStatus = kinds::RefundStatus, "Only refunds with this status";
    }
}

/// Lists refunds, newest first: those of the operator's tenant, or of all tenants for the role `platform`.
#[utoipa::path(
    get,
    path = "/refunds",
    operation_id = "refundsOfTenant",
    tag = "operators",
    params(RefundQuery, Paging),
    responses((status = 200, description = "A page of refunds", body = RefundDetailsPage)),
)]
pub(super) async fn page(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    let (RefundQuery { state: status }, before, limit) = parameters.page()?;
    let page = edge.app.operations.list_refunds(&context, ListRefunds { status, before, limit }).await?;
    Done::page(page, RefundDetailsView::from)
}

/// Returns a refund.
#[utoipa::path(
    get,
    path = "/refunds/{id}",
    operation_id = "refund",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The refund")),
    responses(
        (status = 200, description = "The refund", body = RefundDetailsView),
        (status = 404, description = NOT_FOUND),
    ),
)]
pub(super) async fn one(
    Operator(edge, context): Operator,
    PathId(refund): PathId<RefundId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let refund = edge.app.operations.find_refund(&context, refund).await?;
    Done::ok(&RefundDetailsView::from(refund))
}

/// Sends a refund to the gateway again.
///
/// A failed refund begins a new attempt with its own reference and idempotency key. The next request of a refund in
/// `PROCESSING` becomes due at once, with the same reference and key.
#[utoipa::path(
    post,
    path = "/refunds/{id}/retry",
    operation_id = "retryRefund",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The refund")),
    request_body = bodies::Decision,
    responses(
        (status = 200, description = "The refund, which is in `PROCESSING`", body = RefundDetailsView),
        (status = 404, description = NOT_FOUND),
        (status = 409, description = "The refund succeeded, another refund returned the same money or is returning it, or the order can no longer be refunded"),
    ),
)]
pub(super) async fn retry(
    Command(edge, call): Command<Updated<RefundDetailsView>>,
    PathId(refund): PathId<RefundId>,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let refund = edge.app.operations.retry_refund(&call, refund, reason).await?;
    Done::ok(&RefundDetailsView::from(refund))
}

/// Settles a refund by hand: records that its money was returned by other means.
///
/// The refund succeeds and is not sent to the gateway any more. Later reports about it are recorded for an operator.
#[utoipa::path(
    post,
    path = "/refunds/{id}/settle",
    operation_id = "settleRefund",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The refund")),
    request_body = bodies::Decision,
    responses(
        (status = 200, description = "The refund, which is in `SUCCESS`", body = RefundDetailsView),
        (status = 404, description = NOT_FOUND),
        (status = 409, description = "The refund succeeded, or another refund returned the same money or is returning it"),
    ),
)]
pub(super) async fn settle(
    Command(edge, call): Command<Updated<RefundDetailsView>>,
    PathId(refund): PathId<RefundId>,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let refund = edge.app.operations.settle_refund_by_hand(&call, refund, reason).await?;
    Done::ok(&RefundDetailsView::from(refund))
}
