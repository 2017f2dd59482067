//! `outbox list|show|blocked`, `dlq list`, `audit list`: read directly from the database; `queues`: reads from the
//! broker. All of them also work while a process serves the database.

use handover_events::AggregateId;
use handover_http::views::{AuditView, BlockedView, DeadLetterView, EventView, QueueView};
use handover_outbox::Page;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, DeadLetterFilter, OutboxFilter};
use handover_runtime::Failure;

use crate::args::{
    AuditListArgs, DlqListArgs, OutboxBlockedArgs, OutboxListArgs, OutboxShowArgs, QueuesArgs,
};
use crate::print::{list, show};
use crate::program::Program;
use crate::session::{Reach, Session};

/// `outbox list`.
pub(crate) async fn outbox<P: Program>(arguments: &OutboxListArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 7] =
        ["eventId", "eventType", "aggregateId", "status", "retryCount", "createTime", "lastError"];
    let session = Session::<P>::open(&arguments.common, Reach::Store).await?;
    let filter = OutboxFilter {
        tenant: arguments.tenant,
        status: arguments.status,
        event_type: arguments.event_type.clone(),
        aggregate_type: arguments.aggregate_type.clone(),
        aggregate_id: arguments.aggregate_key.clone().or(arguments.aggregate_id.map(AggregateId::from)),
        ..OutboxFilter::default()
    };
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page = operations::outbox(&session.outbox, &session.operator, filter, before, limit).await;
    list(arguments.output.output, &COLUMNS, page.map_err(|error| session.failed(error))?, EventView::from)
}

/// `outbox show`.
pub(crate) async fn event<P: Program>(arguments: &OutboxShowArgs) -> Result<(), Failure> {
    let session = Session::<P>::open(&arguments.common, Reach::Store).await?;
    let row = operations::find_event(&session.outbox, &session.operator, &arguments.event_id).await;
    let row = row.map_err(|error| {
        session.failed_to_find(error, format!("event {}", arguments.event_id), "handover outbox list")
    })?;
    show(arguments.output.output, &EventView::from(row))
}

/// `outbox blocked`.
pub(crate) async fn blocked<P: Program>(arguments: &OutboxBlockedArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 9] = [
        "aggregateType",
        "aggregateId",
        "tenantId",
        "eventType",
        "waitsFor",
        "until",
        "held",
        "since",
        "lastError",
    ];
    let session = Session::<P>::open(&arguments.common, Reach::Store).await?;
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page = operations::blocked(&session.outbox, &session.operator, arguments.tenant, before, limit).await;
    list(arguments.output.output, &COLUMNS, page.map_err(|error| session.failed(error))?, BlockedView::from)
}

/// `dlq list`.
pub(crate) async fn dead_letters<P: Program>(arguments: &DlqListArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 6] = ["key", "queue", "eventType", "status", "diedAt", "reason"];
    let session = Session::<P>::open(&arguments.common, Reach::Store).await?;
    let filter = DeadLetterFilter {
        tenant: arguments.tenant,
        queue: arguments.queue.clone(),
        event_type: arguments.event_type.clone(),
        status: arguments.status,
    };
    let before = arguments.cursor;
    let limit = arguments.limit;
    let page = operations::dead_letters(&session.outbox, &session.operator, filter, before, limit).await;
    list(
        arguments.output.output,
        &COLUMNS,
        page.map_err(|error| session.failed(error))?,
        DeadLetterView::from,
    )
}

/// `audit list`.
pub(crate) async fn audit<P: Program>(arguments: &AuditListArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 7] = ["createTime", "actor", "action", "matched", "changed", "reason", "selection"];
    let session = Session::<P>::open(&arguments.common, Reach::Store).await?;
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let filter = AuditFilter { tenant: arguments.tenant, changes: arguments.changes };
    let page = operations::audit_log(&session.outbox, &session.operator, filter, before, limit).await;
    list(arguments.output.output, &COLUMNS, page.map_err(|error| session.failed(error))?, AuditView::from)
}

/// `queues`.
pub(crate) async fn queues<P: Program>(arguments: &QueuesArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 4] = ["name", "ready", "unacked", "consumers"];
    let session = Session::<P>::open(&arguments.common, Reach::Broker).await?;
    let queues = operations::queues(&session.outbox, &session.operator).await;
    let items = queues.map_err(|error| session.failed(error))?;
    list(arguments.output.output, &COLUMNS, Page { items, next: None }, QueueView::from)
}
