//! `/api/v1/ops/reconciliation`: what should be there compared with what is, looked at and mended.

use std::sync::Arc;

use axum::extract::State;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use marketplace::CommandContext;
use marketplace::use_cases::operations::{self, GRACE, Reconcile};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::bodies;
use crate::body::OptionalBody;
use crate::context::Operator;
use crate::document::kinds;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields;
use crate::messages;
use crate::query::Parameters;
use crate::refusal::Refusal;
use crate::views::ReconciliationView;

/// How far back is looked where nobody says, and how far it can be asked for.
const DEFAULT_WINDOW: TimeDelta = TimeDelta::hours(24);
const MAX_WINDOW: TimeDelta = TimeDelta::days(31);

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(look)).routes(routes!(repair))
}

/// Compares what should be there with what is.
///
/// Changes nothing.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "reconciliation",
    tag = "operators",
    params(
        ("from" = Option<kinds::Time>, Query, description = "Since; 24 hours before `to` if it is not said"),
        ("to" = Option<kinds::Time>, Query, description = "Until; now if it is not said"),
        ("tenantId" = Option<kinds::Id>, Query, description = "Whose rows; the operator's own tenant's if it is not said, and only `platform` may name another"),
        ("repair" = Option<kinds::NoRepair>, Query, description = "`false`: a repair is posted to `/api/v1/ops/reconciliation/repair`"),
    ),
    responses(
        (status = 200, description = "What was compared and found", body = ReconciliationView),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
async fn look(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let (from, to, tenant) = (parameters.time("from"), parameters.time("to"), parameters.tenant());
    parameters.read("repair", |text| if text == "false" { Ok(()) } else { Err(messages::REPAIR_IS_POSTED) });
    parameters.finish()?;
    reconcile(&edge, &context, Asked { from, to, tenant, repair: false, reason: None }).await
}

/// Compares, and mends what can be mended.
#[utoipa::path(
    post,
    path = "/repair",
    operation_id = "repair",
    tag = "operators",
    request_body(content = Option<bodies::RepairRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "What was compared, found and mended", body = ReconciliationView),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
async fn repair(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    OptionalBody(mut body): OptionalBody,
) -> Answer {
    let from = body.optional("from", fields::time);
    let to = body.optional("to", fields::time);
    let tenant = body.optional("tenantId", fields::id::<TenantId>);
    let reason = body.optional("reason", fields::reason);
    let ((from, to), (tenant, reason)) = body.finish(from.zip(to).zip(tenant.zip(reason)))?;
    reconcile(&edge, &context, Asked { from, to, tenant, repair: true, reason }).await
}

struct Asked {
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    tenant: Option<TenantId>,
    repair: bool,
    reason: Option<Reason>,
}

async fn reconcile(edge: &Edge, context: &CommandContext, asked: Asked) -> Answer {
    let until = asked.to.unwrap_or_else(|| edge.app.now());
    let since = match asked.from {
        Some(since) => Some(since),
        None => until.checked_sub_signed(DEFAULT_WINDOW),
    };
    let since = since
        .filter(|since| *since < until && until.signed_duration_since(since) <= MAX_WINDOW)
        .ok_or_else(|| Refusal::field("from", messages::WINDOW))?;
    let Asked { tenant, repair, reason, .. } = asked;
    let command = Reconcile { tenant, since, until, grace: GRACE, repair, reason };
    let told = operations::reconcile(&edge.app, context, command).await?;
    Done::ok(&ReconciliationView::from(told))
}
