//! `/api/v1/ops`: what operators see and do.

pub(super) mod dead_letters;
pub(super) mod gifts;
mod outbox;
mod reconciliation;

use std::sync::Arc;

use axum::extract::State;
use handover_events::EventId;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, ConsumedFilter};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::context::Operator;
use crate::document::{Paging, kinds};
use crate::edge::Edge;
use crate::envelope::{Answer, Done, Page};
use crate::messages;
use crate::query::Parameters;
use crate::views::{AuditView, ConsumptionView, QueueView, StatsView};

/// The greatest number of characters of an event type.
pub(crate) const MAX_TYPE_CHARS: usize = 64;
/// The greatest number of characters of a queue's name (AMQP 0-9-1: a short string), or a consumer's.
pub(crate) const MAX_QUEUE_CHARS: usize = 255;

type AuditPage = Page<AuditView>;
type ConsumptionPage = Page<ConsumptionView>;
type QueuePage = Page<QueueView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .merge(outbox::routes())
        .merge(gifts::routes())
        .nest("/dead-letters", dead_letters::routes())
        .nest("/reconciliation", reconciliation::routes())
        .routes(routes!(queues))
        .routes(routes!(consumptions))
        .routes(routes!(stats))
        .routes(routes!(audit))
}

/// Shows how full each queue is.
///
/// Depths carry no payload: they are of all tenants.
#[utoipa::path(
    get,
    path = "/queues",
    operation_id = "queues",
    tag = "operators",
    responses(
        (status = 200, description = "The queues", body = QueuePage),
    ),
)]
async fn queues(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    parameters: Parameters,
) -> Answer {
    parameters.finish()?;
    let queues = operations::queues(&edge.app.outbox, &context.operator()?).await?;
    Done::page(queues.into_iter().map(QueueView::from).collect(), None)
}

/// Shows what consumers did with events, the newest first.
#[utoipa::path(
    get,
    path = "/consumptions",
    operation_id = "consumptions",
    tag = "operators",
    params(
        ("tenantId" = Option<kinds::Id>, Query, description = "Whose rows; the operator's own tenant's if it is not said, and only `platform` may name another"),
        ("eventId" = Option<kinds::EventId>, Query, description = "With this event"),
        ("consumer" = Option<kinds::QueueName>, Query, description = "This consumer"),
        ("status" = Option<kinds::ConsumeStatus>, Query, description = "Those that stand there"),
        Paging,
    ),
    responses(
        (status = 200, description = "A page of the consume log", body = ConsumptionPage),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
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
    let page =
        operations::consumptions(&edge.app.outbox, &context.operator()?, filter, before, limit).await?;
    Done::page(page.items.into_iter().map(ConsumptionView::from).collect(), page.next)
}

/// Shows how far everything has come.
#[utoipa::path(
    get,
    path = "/stats",
    operation_id = "stats",
    tag = "operators",
    params(
        ("tenantId" = Option<kinds::Id>, Query, description = "Whose rows; the operator's own tenant's if it is not said, and only `platform` may name another"),
    ),
    responses(
        (status = 200, description = "The numbers", body = StatsView),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
async fn stats(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let tenant = parameters.tenant();
    parameters.finish()?;
    let stats = operations::stats(&edge.app.outbox, &context.operator()?, tenant).await?;
    Done::ok(&StatsView::from(stats))
}

/// Shows what operators looked at and did, the newest first.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "audit",
    tag = "operators",
    params(
        ("tenantId" = Option<kinds::Id>, Query, description = "Whose rows; the operator's own tenant's if it is not said, and only `platform` may name another"),
        ("changes" = Option<bool>, Query, description = "`true`: only what changed something"),
        Paging,
    ),
    responses(
        (status = 200, description = "A page of the audit log", body = AuditPage),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
async fn audit(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let changes = parameters.read("changes", |text| match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(messages::one_of("true false")),
    });
    let filter = AuditFilter { tenant: parameters.tenant(), changes: changes.unwrap_or(false) };
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = operations::audit_log(&edge.app.outbox, &context.operator()?, filter, before, limit).await?;
    Done::page(page.items.into_iter().map(AuditView::from).collect(), page.next)
}
