//! `/queues`, `/consumptions`, `/stats`, `/audit`: read queues, consume log, statistics and audit log.

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, TenantId};
use handover_outbox::Page;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, ConsumedFilter};

use crate::openapi::{Paging, TENANT, TENANT_NOT_FOUND, kinds};
use crate::operator_call::OperatorCall;
use crate::queries;
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::views::{AuditView, ConsumptionView, QueueView, StatsView};

type AuditPage = PageView<AuditView>;
type ConsumptionPage = PageView<ConsumptionView>;
type QueuePage = PageView<QueueView>;

queries! {
    TenantQuery {
        tenant_id: TenantId = kinds::Id, TENANT;
    }

    ConsumptionQuery {
        tenant_id: TenantId = kinds::Id, TENANT;
        event_id: EventId = kinds::EventId, "Only records of this event";
        consumer: String = kinds::QueueName, "Only records of this consumer";
        status: ConsumeStatus = kinds::ConsumeStatus, "Only records with this status";
        from: DateTime<Utc> = kinds::Time, "Earliest time of the last change (inclusive)";
        to: DateTime<Utc> = kinds::Time, "Latest time of the last change (exclusive)";
    }

    AuditQuery {
        tenant_id: TenantId = kinds::Id, TENANT;
        changes: bool = bool, "`true`: only entries of changes";
        from: DateTime<Utc> = kinds::Time, "Earliest time (inclusive)";
        to: DateTime<Utc> = kinds::Time, "Latest time (exclusive)";
    }
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
    params(ConsumptionQuery, Paging),
    responses(
        (status = 200, description = "A page of the consume log", body = ConsumptionPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn consumptions(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let (query, before, limit) = parameters.page::<ConsumptionQuery, _>()?;
    let ConsumptionQuery { tenant_id: tenant, event_id, consumer, status, from, to } = query;
    let filter = ConsumedFilter { tenant, event_id, consumer, status, from, to, above_id: None };
    let page = operations::consumptions(&outbox, &operator, filter, before, limit).await?;
    Done::page(page, ConsumptionView::from)
}

/// Returns statistics of outbox, consumers, dead letters, queues and broker.
#[utoipa::path(
    get,
    path = "/stats",
    operation_id = "stats",
    tag = "operators",
    params(TenantQuery),
    responses(
        (status = 200, description = "The statistics", body = StatsView),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn stats(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let TenantQuery { tenant_id: tenant } = parameters.query()?;
    let stats = operations::stats(&outbox, &operator, tenant).await?;
    Done::ok(&StatsView::from(stats))
}

/// Lists the audit log of operators' reads and changes, newest first.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "audit",
    tag = "operators",
    params(AuditQuery, Paging),
    responses(
        (status = 200, description = "A page of the audit log", body = AuditPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn audit(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let (AuditQuery { tenant_id: tenant, changes, from, to }, before, limit) = parameters.page()?;
    let filter = AuditFilter { tenant, changes: changes.unwrap_or(false), from, to, above_id: None };
    let page = operations::audit_log(&outbox, &operator, filter, before, limit).await?;
    Done::page(page, AuditView::from)
}
