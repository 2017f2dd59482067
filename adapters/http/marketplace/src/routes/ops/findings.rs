//! `/api/v1/ops/reconciliation/findings`: list the recorded findings of reconciliations, and acknowledge the open ones.

use handover_events::TenantId;
use handover_http::body::JsonBody;
use handover_http::openapi::{Paging, TENANT, TENANT_NOT_FOUND};
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use marketplace::use_cases::operations::ListFindings;
use marketplace_domain::FindingState;

use crate::bodies;
use crate::command::Command;
use crate::context::Operator;
use crate::idempotency::Updated;
use crate::openapi::kinds;
use crate::path::PathFinding;
use crate::refusal::RouteResult;
use crate::views::RecordedFindingView;

type RecordedFindingPage = PageView<RecordedFindingView>;

queries! {
    FindingQuery {
        state: FindingState = kinds::FindingState, "Only findings in this state";
        tenant_id: TenantId = kinds::Id, TENANT;
    }
}

/// Lists the recorded findings of reconciliations, newest first.
///
/// Each reconciliation records its findings. An operator sees those of the own tenant; `platform` sees all, also those
/// without a tenant.
#[utoipa::path(
    get,
    path = "/reconciliation/findings",
    operation_id = "findings",
    tag = "operators",
    params(FindingQuery, Paging),
    responses(
        (status = 200, description = "A page of findings", body = RecordedFindingPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(super) async fn page(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    let (FindingQuery { state, tenant_id: tenant }, before, limit) = parameters.page()?;
    let query = ListFindings { tenant, state, before, limit };
    let page = edge.app.operations.findings(&context, query).await?;
    Done::page(page, RecordedFindingView::from)
}

/// Acknowledges an open finding: it is not counted any more.
///
/// A finding that is not open stays as it is and is returned.
#[utoipa::path(
    post,
    path = "/reconciliation/findings/{id}/acknowledge",
    operation_id = "acknowledgeFinding",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The finding")),
    request_body = bodies::Decision,
    responses(
        (status = 200, description = "The finding", body = RecordedFindingView),
        (status = 404, description = "Finding not found in a tenant accessible to the caller"),
    ),
)]
pub(super) async fn acknowledge(
    Command(edge, call): Command<Updated<RecordedFindingView>>,
    PathFinding(finding): PathFinding,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let acknowledged = edge.app.operations.acknowledge_finding(&call, finding, reason).await?;
    Done::ok(&RecordedFindingView::from(acknowledged))
}
