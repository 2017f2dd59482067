//! `/api/v1/ops`: what operators see of the outbox and the queues.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use handover_application::ports::{OutboxFilter, OutboxRow, QueueDepth};
use handover_application::use_cases;
use handover_domain::{EventId, OutboxStatus, TenantId};
use serde::Serialize;
use serde_json::Value;

use super::{rfc3339, rfc3339_or_null};
use crate::context::Operator;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::messages;
use crate::query::Parameters;

/// The greatest number of characters of an event type.
const MAX_TYPE_CHARS: usize = 64;

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new().route("/outbox", get(outbox)).route("/queues", get(queues))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutboxView {
    event_id: EventId,
    event_type: String,
    aggregate_type: String,
    aggregate_id: i64,
    aggregate_seq: i64,
    tenant_id: TenantId,
    status: OutboxStatus,
    retry_count: u32,
    max_retry_count: u32,
    #[serde(serialize_with = "rfc3339_or_null")]
    next_retry_time: Option<DateTime<Utc>>,
    last_error: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
    #[serde(serialize_with = "rfc3339")]
    update_time: DateTime<Utc>,
    #[serde(serialize_with = "rfc3339_or_null")]
    sent_time: Option<DateTime<Utc>>,
    trace_id: String,
    payload: Value,
}

impl From<OutboxRow> for OutboxView {
    fn from(row: OutboxRow) -> OutboxView {
        OutboxView {
            trace_id: row.trace_id().to_owned(),
            // A row inserted by hand may hold what is not JSON; it is shown as it is.
            payload: serde_json::from_str(&row.payload).unwrap_or(Value::String(row.payload)),
            event_id: row.event_id,
            event_type: row.event_type,
            aggregate_type: row.aggregate.kind,
            aggregate_id: row.aggregate.id,
            aggregate_seq: row.aggregate_seq,
            tenant_id: row.aggregate.tenant,
            status: row.status,
            retry_count: row.retry_count,
            max_retry_count: row.max_retry_count,
            next_retry_time: row.next_retry_time,
            last_error: row.last_error,
            create_time: row.create_time,
            update_time: row.update_time,
            sent_time: row.sent_time,
        }
    }
}

#[derive(Serialize)]
struct QueueView {
    name: String,
    ready: u64,
    unacked: u64,
    consumers: u64,
}

impl From<QueueDepth> for QueueView {
    fn from(QueueDepth { name, ready, unacked, consumers }: QueueDepth) -> QueueView {
        QueueView { name, ready, unacked, consumers }
    }
}

async fn outbox(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let filter = OutboxFilter {
        status: parameters.named("status"),
        event_type: parameters.read("eventType", |text| {
            let legal = text.len() <= MAX_TYPE_CHARS && text.bytes().all(|b| b.is_ascii_graphic());
            if legal { Ok(text.to_owned()) } else { Err(messages::visible_ascii(MAX_TYPE_CHARS)) }
        }),
        aggregate_id: parameters
            .read("aggregateId", |text| text.parse().map_err(|_| messages::NOT_AN_INTEGER)),
        tenant: parameters.read("tenantId", |text| Ok(text.parse::<TenantId>()?)),
        from: parameters.time("from"),
        to: parameters.time("to"),
    };
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = use_cases::outbox(&edge.app, &context, filter, before, limit).await?;
    Done::page(page.items.into_iter().map(OutboxView::from).collect(), page.next)
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
