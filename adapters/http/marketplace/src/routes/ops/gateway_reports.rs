//! `/api/v1/ops/gateway-reports`: list the reports of the payment gateway, and close the open ones.

use chrono::{DateTime, Utc};
use handover_http::body::JsonBody;
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use marketplace::use_cases::operations::ListGatewayReports;
use marketplace_domain::ReportState;

use crate::bodies;
use crate::command::Command;
use crate::context::Operator;
use crate::idempotency::Updated;
use crate::openapi::kinds;
use crate::path::PathReport;
use crate::refusal::RouteResult;
use crate::views::GatewayReportView;

type GatewayReportPage = PageView<GatewayReportView>;

queries! {
    ReportQuery {
        state: ReportState = kinds::ReportState, "Only reports in this state";
        from: DateTime<Utc> = kinds::Time, "Earliest time of the report (inclusive)";
        to: DateTime<Utc> = kinds::Time, "Latest time of the report (exclusive)";
    }
}

/// Lists reports of the payment gateway, newest first.
///
/// An operator sees those of the own tenant; `platform` sees all, also those of an unknown payment or refund.
#[utoipa::path(
    get,
    path = "/gateway-reports",
    operation_id = "gatewayReports",
    tag = "operators",
    params(ReportQuery, Paging),
    responses((status = 200, description = "A page of reports", body = GatewayReportPage)),
)]
pub(super) async fn page(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    let (ReportQuery { state, from, to }, before, limit) = parameters.page()?;
    let query = ListGatewayReports { state, from, to, before, limit };
    let page = edge.app.operations.gateway_reports(&context, query).await?;
    Done::page(page, GatewayReportView::from)
}

/// Closes an open report.
///
/// A report that is not open stays as it is and is returned.
#[utoipa::path(
    post,
    path = "/gateway-reports/{id}/close",
    operation_id = "closeGatewayReport",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The report")),
    request_body = bodies::Decision,
    responses(
        (status = 200, description = "The report", body = GatewayReportView),
        (status = 404, description = "Report not found in a tenant accessible to the caller"),
    ),
)]
pub(super) async fn close(
    Command(edge, call): Command<Updated<GatewayReportView>>,
    PathReport(report): PathReport,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let closed = edge.app.operations.close_gateway_report(&call, report, reason).await?;
    Done::ok(&GatewayReportView::from(closed))
}
