//! `/queues`, `/consumptions`, `/stats`, `/audit`: read queues, consume log, statistics and audit log.

use handover_events::EventId;
use handover_outbox::Page;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, ConsumedFilter};

use crate::messages;
use crate::openapi::{Paging, TENANT, TENANT_NOT_FOUND, kinds};
use crate::operators::OperatorCall;
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::value_limits::MAX_QUEUE_CHARS;
use crate::views::{AuditView, ConsumptionView, QueueView, StatsView};

type AuditPage = PageView<AuditView>;
type ConsumptionPage = PageView<ConsumptionView>;
type QueuePage = PageView<QueueView>;

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
pub(crate) async fn queues(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let queues = operations::queues(&outbox, &operator).await?;
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
pub(crate) async fn consumptions(
    OperatorCall { outbox, operator }: OperatorCall,
    mut parameters: Parameters,
) -> RouteResult {
    let filter = ConsumedFilter {
        tenant: parameters.tenant(),
        event_id: parameters.read("eventId", |text| Ok(text.parse::<EventId>()?)),
        consumer: parameters.visible_ascii("consumer", MAX_QUEUE_CHARS),
        status: parameters.named("status"),
        ..ConsumedFilter::default()
    };
    let (before, limit) = parameters.finish_page()?;
    let page = operations::consumptions(&outbox, &operator, filter, before, limit).await?;
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
pub(crate) async fn stats(
    OperatorCall { outbox, operator }: OperatorCall,
    mut parameters: Parameters,
) -> RouteResult {
    let tenant = parameters.tenant();
    parameters.finish()?;
    let stats = operations::stats(&outbox, &operator, tenant).await?;
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
pub(crate) async fn audit(
    OperatorCall { outbox, operator }: OperatorCall,
    mut parameters: Parameters,
) -> RouteResult {
    let changes = parameters.read("changes", |text| match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(messages::one_of("true false")),
    });
    let filter = AuditFilter { tenant: parameters.tenant(), changes: changes.unwrap_or(false) };
    let (before, limit) = parameters.finish_page()?;
    let page = operations::audit_log(&outbox, &operator, filter, before, limit).await?;
    Done::page(page, AuditView::from)
}
