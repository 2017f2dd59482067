//! `/api/v1/ops/reconciliation`: reconcile business rows, events and effects, and repair differences.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use handover_http::body::OptionalBody;
use handover_http::openapi::{TENANT, TENANT_NOT_FOUND};
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::refusal::Refusal;
use handover_http::response::Done;
use handover_outbox::operations::Reason;
use marketplace::CommandContext;
use marketplace::use_cases::operations::{GRACE, Reconcile};

use crate::bodies;
use crate::command::Afterwards;
use crate::context::Operator;
use crate::edge::Edge;
use crate::messages;
use crate::openapi::kinds;
use crate::refusal::RouteResult;
use crate::views::ReconciliationView;

const DEFAULT_WINDOW: TimeDelta = TimeDelta::hours(24);
const MAX_WINDOW: TimeDelta = TimeDelta::days(31);

queries! {
    ReconciliationQuery {
        from: DateTime<Utc> = kinds::Time, "Start; default: 24 hours before `to`";
        to: DateTime<Utc> = kinds::Time, "End; default: now";
        tenant_id: TenantId = kinds::Id, TENANT;
        repair: () = kinds::NoRepair, "Only `false`; to repair, send a POST to `/api/v1/ops/reconciliation/repair`";
    }
}

/// Reconciles business rows, outbox, consume log and effects.
///
/// Repairs nothing. The findings are recorded: see `/api/v1/ops/reconciliation/findings`.
#[utoipa::path(
    get,
    path = "/reconciliation",
    operation_id = "reconciliation",
    tag = "operators",
    params(ReconciliationQuery),
    responses(
        (status = 200, description = "Numbers of compared rows, and the findings", body = ReconciliationView),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(super) async fn report(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    let ReconciliationQuery { from, to, tenant_id: tenant, repair: _ } = parameters.query()?;
    reconcile(&edge, &context, Selection { from, to, tenant, repair: false, reason: None }).await
}

/// Reconciles, and repairs the findings that can be repaired.
#[utoipa::path(
    post,
    path = "/reconciliation/repair",
    operation_id = "repair",
    tag = "operators",
    request_body(content = Option<bodies::RepairRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "Numbers of compared rows, and the findings with their repairs", body = ReconciliationView),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(super) async fn repair(
    Afterwards(edge, context): Afterwards,
    OptionalBody(body): OptionalBody<bodies::RepairRequest>,
) -> RouteResult {
    let selection = body.command(|body, _| {
        let tenant = body.tenant_id?;
        Some(Selection { from: body.from?, to: body.to?, tenant, repair: true, reason: body.reason? })
    })?;
    reconcile(&edge, &context, selection).await
}

struct Selection {
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    tenant: Option<TenantId>,
    repair: bool,
    reason: Option<Reason>,
}

async fn reconcile(edge: &Edge, context: &CommandContext, selection: Selection) -> RouteResult {
    let until = selection.to.unwrap_or_else(|| edge.app.now());
    let since = match selection.from {
        Some(since) => Some(since),
        None => until.checked_sub_signed(DEFAULT_WINDOW),
    };
    let since = since
        .filter(|since| *since < until && until.signed_duration_since(since) <= MAX_WINDOW)
        .ok_or_else(|| Refusal::field("from", messages::window_range(MAX_WINDOW.num_days())))?;
    let Selection { tenant, repair, reason, .. } = selection;
    let command = Reconcile { tenant, since, until, grace: GRACE, repair, reason };
    let reconciliation = edge.app.operations.reconcile(&context.operator()?, command).await?;
    Done::ok(&ReconciliationView::from(reconciliation))
}
