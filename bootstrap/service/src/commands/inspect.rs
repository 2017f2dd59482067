//! `outbox list|show|blocked`, `dlq list`, `order timeline`, `audit list`: read directly from the database; `queues`:
//! reads from the broker. All of them also work while a process serves the database.

use handover_http::views::{AuditView, BlockedView, DeadLetterView, EventView, QueueView};
use handover_outbox::Page;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, DeadLetterFilter, OutboxFilter};
use handover_runtime::terminal::{Output, note, output, say};
use marketplace::use_cases::operations as market;
use marketplace_http::views::TimelineView;
use serde::Serialize;
use serde_json::{Value, json};

use super::operator::{Operator, Reach};
use crate::cli::{
    AuditListArgs, DlqListArgs, OutboxBlockedArgs, OutboxListArgs, OutboxShowArgs, QueuesArgs, TimelineArgs,
};
use handover_runtime::Failure;

/// `outbox list`.
pub(super) async fn outbox(arguments: &OutboxListArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 7] =
        ["eventId", "eventType", "aggregateId", "status", "retryCount", "createTime", "lastError"];
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let filter = OutboxFilter {
        tenant: arguments.tenant,
        status: arguments.status,
        event_type: arguments.event_type.clone(),
        aggregate_type: arguments.aggregate_type.clone(),
        aggregate_id: arguments.aggregate_id,
        ..OutboxFilter::default()
    };
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page = operations::outbox(&operator.app.outbox, &operator.acting, filter, before, limit).await;
    list(arguments.output.output, &COLUMNS, page.map_err(|error| operator.failed(error))?, EventView::from)
}

/// `outbox show`.
pub(super) async fn event(arguments: &OutboxShowArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let row = operations::find_event(&operator.app.outbox, &operator.acting, &arguments.event_id).await;
    let row = row.map_err(|error| {
        operator.failed_to_find(error, format!("event {}", arguments.event_id), "handover outbox list")
    })?;
    let event = EventView::from(row);
    say(&match arguments.output.output {
        Output::Table => output::object(&output::value(&event)),
        Output::Json => output::json(&event),
    })
}

/// `outbox blocked`.
pub(super) async fn blocked(arguments: &OutboxBlockedArgs) -> Result<(), Failure> {
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
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page =
        operations::blocked(&operator.app.outbox, &operator.acting, arguments.tenant, before, limit).await;
    list(arguments.output.output, &COLUMNS, page.map_err(|error| operator.failed(error))?, BlockedView::from)
}

/// `dlq list`.
pub(super) async fn dead_letters(arguments: &DlqListArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 6] = ["key", "queue", "eventType", "status", "diedAt", "reason"];
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let filter = DeadLetterFilter {
        tenant: arguments.tenant,
        queue: arguments.queue.clone(),
        event_type: arguments.event_type.clone(),
        status: arguments.status,
    };
    let before = arguments.cursor;
    let limit = arguments.limit;
    let page = operations::dead_letters(&operator.app.outbox, &operator.acting, filter, before, limit).await;
    list(
        arguments.output.output,
        &COLUMNS,
        page.map_err(|error| operator.failed(error))?,
        DeadLetterView::from,
    )
}

/// `order timeline`.
pub(super) async fn timeline(arguments: &TimelineArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 10] = [
        "at",
        "kind",
        "what",
        "status",
        "eventType",
        "consumer",
        "amount",
        "balanceAfter",
        "idempotencyKey",
        "detail",
    ];
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let tenant = arguments.tenant;
    let order = arguments.order;
    let timeline = market::timeline(&operator.app, &operator.context, tenant, order).await;
    let timeline = timeline.map_err(|error| {
        operator.failed_to_find(
            error,
            format!("order {order}"),
            "handover outbox list --event-type ORDER_CREATED",
        )
    })?;
    let view = output::value(&TimelineView::from(timeline));
    say(&match arguments.output.output {
        Output::Table => output::columns(&COLUMNS, view["items"].as_array().map_or(&[], Vec::as_slice)),
        Output::Json => output::json(&view),
    })
}

/// `audit list`.
pub(super) async fn audit(arguments: &AuditListArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 7] = ["createTime", "actor", "action", "matched", "changed", "reason", "selection"];
    let operator = Operator::open(&arguments.common, Reach::Store).await?;
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let filter = AuditFilter { tenant: arguments.tenant, changes: arguments.changes };
    let page = operations::audit_log(&operator.app.outbox, &operator.acting, filter, before, limit).await;
    list(arguments.output.output, &COLUMNS, page.map_err(|error| operator.failed(error))?, AuditView::from)
}

/// `queues`.
pub(super) async fn queues(arguments: &QueuesArgs) -> Result<(), Failure> {
    const COLUMNS: [&str; 4] = ["name", "ready", "unacked", "consumers"];
    let operator = Operator::open(&arguments.common, Reach::Broker).await?;
    let queues = operations::queues(&operator.app.outbox, &operator.acting).await;
    let items = queues.map_err(|error| operator.failed(error))?;
    list(arguments.output.output, &COLUMNS, Page { items, next: None }, QueueView::from)
}

/// Prints `{"items": [...], "nextCursor": ...}`, or a table.
pub(super) fn list<T, V: Serialize>(
    format: Output,
    columns: &[&str],
    page: Page<T>,
    view: impl Fn(T) -> V,
) -> Result<(), Failure> {
    let items: Vec<Value> = page.items.into_iter().map(|item| output::value(&view(item))).collect();
    match page.next {
        Some(next) => note(&format!("older rows exist: continue with --cursor {next}")),
        None if items.is_empty() && format == Output::Table => note("no rows match"),
        None => {}
    }
    say(&match format {
        Output::Table => output::columns(columns, &items),
        Output::Json => {
            output::json(&json!({ "items": items, "nextCursor": page.next.map(|next| next.to_string()) }))
        }
    })
}
