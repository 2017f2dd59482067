//! `/api/v1/ops/outbox`, `/blocked`: events looked at, sent once more, let pass.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use handover_application::ports::OutboxFilter;
use handover_application::use_cases;
use handover_application::use_cases::operations::{
    self, BadFilter, Pace, RedriveEvents, RedriveFilter, Rows,
};
use handover_domain::TenantId;
use serde_json::Value;

use super::MAX_TYPE_CHARS;
use crate::body::{JsonBody, OptionalBody};
use crate::context::Operator;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields::{self, Fields};
use crate::messages::{self, Text};
use crate::path::{PathAggregate, PathEvent};
use crate::query::Parameters;
use crate::views::{BlockedView, EventView, RedriveView, ReleaseView};

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new()
        .route("/outbox", get(page))
        .route("/outbox/{eventId}", get(one))
        .route("/outbox/redrive", post(redrive))
        .route("/blocked", get(blocked))
        .route("/blocked/{aggregateType}/{aggregateId}/release", post(release))
}

async fn page(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let filter = OutboxFilter {
        status: parameters.named("status"),
        event_type: parameters.visible_ascii("eventType", MAX_TYPE_CHARS),
        aggregate_id: parameters
            .read("aggregateId", |text| text.parse().map_err(|_| messages::NOT_AN_INTEGER)),
        tenant: parameters.tenant(),
        from: parameters.time("from"),
        to: parameters.time("to"),
    };
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = use_cases::outbox(&edge.app, &context, filter, before, limit).await?;
    Done::page(page.items.into_iter().map(EventView::from).collect(), page.next)
}

async fn one(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathEvent(id): PathEvent,
    parameters: Parameters,
) -> Answer {
    parameters.finish()?;
    let row = operations::find_event(&edge.app, &context, &id).await?;
    Done::ok(&EventView::from(row))
}

async fn redrive(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let events = body.optional("eventIds", fields::named(fields::event_id));
    let filter = body.object("filter", redrive_filter);
    let after = body.optional("cursor", fields::cursor);
    let rows = match (events, filter) {
        (Some(Some(events)), Some(None)) => Some(Rows::Events(events)),
        (Some(None), Some(Some(filter))) => after.map(|after| Rows::Filter { filter, after }),
        (Some(None), Some(None)) => body.wrong("eventIds", messages::IDS_OR_FILTER),
        (Some(Some(_)), Some(Some(_))) => body.wrong("filter", messages::IDS_OR_FILTER),
        (None, _) | (_, None) => None,
    };
    let dry_run = body.optional("dryRun", fields::flag);
    let pace = body.optional("perSecond", pace);
    let reason = body.optional("reason", fields::reason);
    let command = rows.zip(dry_run).zip(pace.zip(reason)).map(|((rows, dry_run), (pace, reason))| {
        RedriveEvents { rows, dry_run: dry_run.unwrap_or(false), pace: pace.unwrap_or_default(), reason }
    });
    let command = body.finish(command)?;
    let redriven = operations::redrive_events(&edge.app, &context, command).await?;
    Done::ok(&RedriveView::from(redriven))
}

fn redrive_filter(body: &mut Fields) -> Option<RedriveFilter> {
    let status = body.optional("status", fields::name);
    let event_type = body.optional("eventType", fields::visible_ascii(MAX_TYPE_CHARS));
    let aggregate_id = body.optional("aggregateId", fields::integer);
    let tenant = body.optional("tenantId", fields::id::<TenantId>);
    let from = body.optional("from", fields::time);
    let to = body.optional("to", fields::time);
    let filter = OutboxFilter {
        tenant: tenant?,
        status: status?,
        event_type: event_type?,
        aggregate_id: aggregate_id?,
        from: from?,
        to: to?,
    };
    match RedriveFilter::new(filter) {
        Ok(filter) => Some(filter),
        Err(error @ BadFilter::Empty) => body.wrong("", error),
        Err(error @ BadFilter::Pending) => body.wrong("status", error),
    }
}

fn pace(value: &Value) -> Result<Pace, Text> {
    let per_second = value.as_number().and_then(|number| number.as_u64()).and_then(|n| u16::try_from(n).ok());
    per_second.and_then(Pace::new).ok_or(messages::PACE_RANGE)
}

async fn blocked(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let tenant = parameters.tenant();
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = operations::blocked(&edge.app, &context, tenant, before, limit).await?;
    Done::page(page.items.into_iter().map(BlockedView::from).collect(), page.next)
}

async fn release(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathAggregate { kind, id }: PathAggregate,
    OptionalBody(mut body): OptionalBody,
) -> Answer {
    let reason = body.optional("reason", fields::reason);
    let tenant = body.optional("tenantId", fields::id::<TenantId>);
    let (reason, tenant) = body.finish(reason.zip(tenant))?;
    let aggregate = (kind.clone(), id);
    let released = operations::release_aggregate(&edge.app, &context, tenant, aggregate, reason).await?;
    Done::ok(&ReleaseView::new(kind, id, released))
}
