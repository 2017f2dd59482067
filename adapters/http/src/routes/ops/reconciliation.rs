//! `/api/v1/ops/reconciliation`: what should be there compared with what is, looked at and mended.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use chrono::{DateTime, TimeDelta, Utc};
use handover_application::CommandContext;
use handover_application::use_cases::operations::{self, GRACE, Reconcile};
use handover_domain::TenantId;

use crate::body::OptionalBody;
use crate::context::Operator;
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

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new().route("/", get(look)).route("/repair", post(repair))
}

/// Changes nothing: `repair` can only be `false`.
async fn look(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let (from, to, tenant) = (parameters.time("from"), parameters.time("to"), parameters.tenant());
    parameters.read("repair", |text| if text == "false" { Ok(()) } else { Err(messages::REPAIR_IS_POSTED) });
    parameters.finish()?;
    reconcile(&edge, &context, Asked { from, to, tenant, repair: false }).await
}

async fn repair(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    OptionalBody(mut body): OptionalBody,
) -> Answer {
    let from = body.optional("from", fields::time);
    let to = body.optional("to", fields::time);
    let tenant = body.optional("tenantId", fields::id::<TenantId>);
    let ((from, to), tenant) = body.finish(from.zip(to).zip(tenant))?;
    reconcile(&edge, &context, Asked { from, to, tenant, repair: true }).await
}

struct Asked {
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    tenant: Option<TenantId>,
    repair: bool,
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
    let command = Reconcile { tenant: asked.tenant, since, until, grace: GRACE, repair: asked.repair };
    let told = operations::reconcile(&edge.app, context, command).await?;
    Done::ok(&ReconciliationView::from(told))
}
