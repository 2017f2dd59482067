//! `/alerts`, `/stats/history`: alerts, and statistics over time.

use axum::extract::Path;
use chrono::{DateTime, Utc};
use handover_outbox::{Page, operations};

use crate::bodies;
use crate::body::JsonBody;
use crate::openapi::kinds;
use crate::operator_call::OperatorCall;
use crate::queries;
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::views::{AlertView, StatSeriesView};

type AlertPage = PageView<AlertView>;
type StatSeriesPage = PageView<StatSeriesView>;

queries! {
    HistoryQuery {
        since: DateTime<Utc> = kinds::Time, "Begin of the time; default: an hour ago";
        metric: String = kinds::MetricName, "Only this metric";
    }
}

/// Lists the alerts with their state, the active ones first.
///
/// They contain no payloads and cover all tenants. Not recorded in the audit log.
#[utoipa::path(
    get,
    path = "/alerts",
    operation_id = "alerts",
    tag = "operators",
    responses((status = 200, description = "All alerts", body = AlertPage)),
)]
pub(crate) async fn page(OperatorCall { outbox, .. }: OperatorCall, parameters: Parameters) -> RouteResult {
    parameters.finish()?;
    let items = operations::alerts(&outbox).await?;
    Done::page(Page { items, next: None }, AlertView::from)
}

/// Acknowledges an alert until a time: its state does not change, but nobody is notified.
///
/// Only for operators of all tenants.
#[utoipa::path(
    post,
    path = "/alerts/{alert}/acknowledge",
    operation_id = "acknowledgeAlert",
    tag = "operators",
    params(("alert" = String, Path, description = "Name of the alert")),
    request_body = bodies::AcknowledgeRequest,
    responses(
        (status = 200, description = "The alert", body = AlertView),
        (status = 404, description = "No such alert"),
    ),
)]
pub(crate) async fn acknowledge(
    OperatorCall { outbox, operator }: OperatorCall,
    Path(alert): Path<String>,
    JsonBody(body): JsonBody<bodies::AcknowledgeRequest>,
) -> RouteResult {
    let (until, reason) = body.command(|body, _| body.until.zip(body.reason))?;
    let state = operations::acknowledge_alert(&outbox, &operator, &alert, until, reason).await?;
    Done::ok(&AlertView::from(state))
}

/// Returns statistics over time: the mean and the highest value of each state metric.
///
/// One sample per minute is kept for 24 hours, one per ten minutes for 14 days. Not recorded in the audit log.
#[utoipa::path(
    get,
    path = "/stats/history",
    operation_id = "statsHistory",
    tag = "operators",
    params(HistoryQuery),
    responses((status = 200, description = "The series, each with at most 120 values", body = StatSeriesPage)),
)]
pub(crate) async fn history(
    OperatorCall { outbox, .. }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let HistoryQuery { since, metric } = parameters.query()?;
    let since = since.unwrap_or_else(|| outbox.now() - chrono::TimeDelta::hours(1));
    let items = operations::stat_history(&outbox, since, metric.as_deref()).await?;
    Done::page(Page { items, next: None }, StatSeriesView::from)
}
