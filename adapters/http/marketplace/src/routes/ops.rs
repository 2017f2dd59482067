//! `/api/v1/ops`: operator routes.

pub(super) mod asset_grants;
mod dead_letters;
mod gateway_reports;
mod outbox;
mod reconciliation;
mod refunds;

use std::sync::Arc;

use handover_events::EventId;
use handover_outbox::Page;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, ConsumedFilter};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::context::Operator;
use crate::edge::Edge;
use crate::messages;
use crate::openapi::{Paging, TENANT, TENANT_NOT_FOUND, kinds};
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::value_limits::MAX_QUEUE_CHARS;
use crate::views::{AuditView, ConsumptionView, QueueView, StatsView};

type AuditPage = PageView<AuditView>;
type ConsumptionPage = PageView<ConsumptionView>;
type QueuePage = PageView<QueueView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(outbox::page))
        .routes(routes!(outbox::one))
        .routes(routes!(outbox::blocked))
        .routes(routes!(asset_grants::deposit))
        .routes(routes!(asset_grants::grant))
        .routes(routes!(asset_grants::issue))
        .routes(routes!(dead_letters::page))
        .routes(routes!(gateway_reports::page))
        .routes(routes!(gateway_reports::close))
        .routes(routes!(refunds::page))
        .routes(routes!(refunds::one))
        .routes(routes!(refunds::retry))
        .routes(routes!(refunds::settle))
        .routes(routes!(reconciliation::report))
        .routes(routes!(queues))
        .routes(routes!(consumptions))
        .routes(routes!(stats))
        .routes(routes!(audit))
}

/// Routes that use more than one transaction, so that their response is stored afterwards. All other POST routes store their
/// response in the transaction of the command; such a command refuses to run if its key was claimed in another store.
pub(super) fn multi_transaction_routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(outbox::redrive))
        .routes(routes!(outbox::release))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(dead_letters::discard))
        .routes(routes!(reconciliation::repair))
}

/// Lists the queues with their depths.
///
/// Depths contain no payloads; they cover all tenants.
#[utoipa::path(
    get,
    path = "/queues",
    operation_id = "queues",
    tag = "operators",
    responses((status = 200, description = "The queues", body = QueuePage)),
)]
async fn queues(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    parameters.finish()?;
    let queues = operations::queues(&edge.app.outbox, &context.operator()?).await?;
    Done::page(Page { items: queues, next: None }, QueueView::from)
}

/// Lists the consume log, newest first.
#[utoipa::path(
    get,
    path = "/consumptions",
    operation_id = "consumptions",
    tag = "operators",
    params(
        ("tenantId" = Option<kinds::Id>, Query, description = TENANT),
        ("eventId" = Option<kinds::EventId>, Query, description = "Only records of this event"),
        ("consumer" = Option<kinds::QueueName>, Query, description = "Only records of this consumer"),
        ("status" = Option<kinds::ConsumeStatus>, Query, description = "Only records with this status"),
        Paging,
    ),
    responses(
        (status = 200, description = "A page of the consume log", body = ConsumptionPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
async fn consumptions(Operator(edge, context): Operator, mut parameters: Parameters) -> RouteResult {
    let filter = ConsumedFilter {
        tenant: parameters.tenant(),
        event_id: parameters.read("eventId", |text| Ok(text.parse::<EventId>()?)),
        consumer: parameters.visible_ascii("consumer", MAX_QUEUE_CHARS),
        status: parameters.named("status"),
        ..ConsumedFilter::default()
    };
    let (before, limit) = parameters.finish_page()?;
    let page =
        operations::consumptions(&edge.app.outbox, &context.operator()?, filter, before, limit).await?;
    Done::page(page, ConsumptionView::from)
}

/// Returns statistics of outbox, consumers, dead letters, queues and broker.
#[utoipa::path(
    get,
    path = "/stats",
    operation_id = "stats",
    tag = "operators",
    params(("tenantId" = Option<kinds::Id>, Query, description = TENANT)),
    responses(
        (status = 200, description = "The statistics", body = StatsView),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
async fn stats(Operator(edge, context): Operator, mut parameters: Parameters) -> RouteResult {
    let tenant = parameters.tenant();
    parameters.finish()?;
    let stats = operations::stats(&edge.app.outbox, &context.operator()?, tenant).await?;
    Done::ok(&StatsView::from(stats))
}

/// Lists the audit log of operators' reads and changes, newest first.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "audit",
    tag = "operators",
    params(
        ("tenantId" = Option<kinds::Id>, Query, description = TENANT),
        ("changes" = Option<bool>, Query, description = "`true`: only entries of changes"),
        Paging,
    ),
    responses(
        (status = 200, description = "A page of the audit log", body = AuditPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
async fn audit(Operator(edge, context): Operator, mut parameters: Parameters) -> RouteResult {
    let changes = parameters.read("changes", |text| match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(messages::one_of("true false")),
    });
    let filter = AuditFilter { tenant: parameters.tenant(), changes: changes.unwrap_or(false) };
    let (before, limit) = parameters.finish_page()?;
    let page = operations::audit_log(&edge.app.outbox, &context.operator()?, filter, before, limit).await?;
    Done::page(page, AuditView::from)
}
