//! `order timeline`: reads directly from the database, also while a process serves it.

use handover_cli::Access;
use handover_runtime::Failure;
use handover_runtime::terminal::{Output, output, say};
use marketplace_http::views::TimelineView;

use super::operator::Operator;
use crate::cli::TimelineArgs;

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
    let operator = Operator::open(&arguments.common).await?;
    let tenant = arguments.tenant;
    let order = arguments.order;
    let timeline = operator.app.operations.timeline(&operator.context, tenant, order).await;
    let timeline = timeline.map_err(|error| {
        operator.session.failed_to_find(
            error,
            format!("order {order}"),
            "handover outbox list --event-type ORDER_CREATED",
        )
    })?;
    let view = output::value(&TimelineView::from(timeline));
    Ok(say(&match arguments.output.output {
        Output::Table => output::columns(&COLUMNS, view["items"].as_array().map_or(&[], Vec::as_slice)),
        Output::Json => output::json(&view),
    })?)
}
