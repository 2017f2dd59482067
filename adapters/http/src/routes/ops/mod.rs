//! `/api/v1/ops`: what operators see and do.

mod dead_letters;
pub(super) mod gifts;
mod outbox;
mod reconciliation;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use handover_application::ports::ConsumedFilter;
use handover_application::use_cases::{self, operations};
use handover_domain::EventId;

use crate::context::Operator;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::query::Parameters;
use crate::views::{AuditView, ConsumptionView, QueueView, StatsView};

/// The greatest number of characters of an event type.
const MAX_TYPE_CHARS: usize = 64;
/// The greatest number of characters of a queue's name (AMQP 0-9-1: a short string), or a consumer's.
const MAX_QUEUE_CHARS: usize = 255;

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new()
        .merge(outbox::routes())
        .merge(gifts::routes())
        .nest("/dead-letters", dead_letters::routes())
        .nest("/reconciliation", reconciliation::routes())
        .route("/queues", get(queues))
        .route("/consumptions", get(consumptions))
        .route("/stats", get(stats))
        .route("/audit", get(audit))
}

async fn queues(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    parameters: Parameters,
) -> Answer {
    parameters.finish()?;
    let queues = use_cases::queues(&edge.app, &context).await?;
    Done::page(queues.into_iter().map(QueueView::from).collect(), None)
}

async fn consumptions(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let filter = ConsumedFilter {
        tenant: parameters.tenant(),
        event_id: parameters.read("eventId", |text| Ok(text.parse::<EventId>()?)),
        consumer: parameters.visible_ascii("consumer", MAX_QUEUE_CHARS),
        status: parameters.named("status"),
    };
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = operations::consumptions(&edge.app, &context, filter, before, limit).await?;
    Done::page(page.items.into_iter().map(ConsumptionView::from).collect(), page.next)
}

async fn stats(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let tenant = parameters.tenant();
    parameters.finish()?;
    let stats = operations::stats(&edge.app, &context, tenant).await?;
    Done::ok(&StatsView::from(stats))
}

async fn audit(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let tenant = parameters.tenant();
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = operations::audit_log(&edge.app, &context, tenant, before, limit).await?;
    Done::page(page.items.into_iter().map(AuditView::from).collect(), page.next)
}
