//! `/api/v1/ops/outbox`, `/blocked`: events looked at, sent once more, let pass.

use std::sync::Arc;

use axum::extract::State;
use handover_events::TenantId;
use handover_outbox::operations;
use handover_outbox::operations::{BadFilter, Pace, RedriveEvents, RedriveFilter, Rows};
use handover_outbox::ports::OutboxFilter;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::MAX_TYPE_CHARS;
use crate::bodies;
use crate::body::{JsonBody, OptionalBody};
use crate::context::Operator;
use crate::document::{Paging, kinds};
use crate::edge::Edge;
use crate::envelope::{Answer, Done, Page};
use crate::fields::{self, Fields};
use crate::messages::{self, Text};
use crate::path::{PathAggregate, PathEvent};
use crate::query::Parameters;
use crate::views::{BlockedView, EventView, RedriveView, ReleaseView};

type BlockedPage = Page<BlockedView>;
type EventPage = Page<EventView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(page))
        .routes(routes!(one))
        .routes(routes!(redrive))
        .routes(routes!(blocked))
        .routes(routes!(release))
}

/// Shows events, the newest first.
#[utoipa::path(
    get,
    path = "/outbox",
    operation_id = "events",
    tag = "operators",
    params(
        ("status" = Option<kinds::OutboxStatus>, Query, description = "Those that stand there"),
        ("eventType" = Option<kinds::EventType>, Query, description = "Of this type"),
        ("aggregateId" = Option<kinds::AggregateId>, Query, description = "About this order, payment, ..."),
        ("tenantId" = Option<kinds::Id>, Query, description = "Whose rows; the operator's own tenant's if it is not said, and only `platform` may name another"),
        ("from" = Option<kinds::Time>, Query, description = "Committed since"),
        ("to" = Option<kinds::Time>, Query, description = "Committed before"),
        Paging,
    ),
    responses(
        (status = 200, description = "A page of events", body = EventPage),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
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
    let page = operations::outbox(&edge.app.outbox, &context.operator()?, filter, before, limit).await?;
    Done::page(page.items.into_iter().map(EventView::from).collect(), page.next)
}

/// Shows an event.
#[utoipa::path(
    get,
    path = "/outbox/{eventId}",
    operation_id = "event",
    tag = "operators",
    params(
        ("eventId" = kinds::EventId, Path, description = "The event"),
    ),
    responses(
        (status = 200, description = "The event", body = EventView),
        (status = 404, description = "There is no such event of your tenant"),
    ),
)]
async fn one(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathEvent(id): PathEvent,
    parameters: Parameters,
) -> Answer {
    parameters.finish()?;
    let row = operations::find_event(&edge.app.outbox, &context.operator()?, &id).await?;
    Done::ok(&EventView::from(row))
}

/// Sends events once more.
///
/// FAILED ones are tried again; SENT ones are sent a second time, and consumers ignore what they did.
#[utoipa::path(
    post,
    path = "/outbox/redrive",
    operation_id = "redriveEvents",
    tag = "operators",
    request_body = bodies::RedriveRequest,
    responses(
        (status = 200, description = "What became of it", body = RedriveView),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
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
    let redriven = operations::redrive_events(&edge.app.outbox, &context.operator()?, command).await?;
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

/// Shows aggregates whose next event waits: for its time, or behind a failed one that a person has to decide about.
#[utoipa::path(
    get,
    path = "/blocked",
    operation_id = "blockedAggregates",
    tag = "operators",
    params(
        ("tenantId" = Option<kinds::Id>, Query, description = "Whose rows; the operator's own tenant's if it is not said, and only `platform` may name another"),
        Paging,
    ),
    responses(
        (status = 200, description = "A page of aggregates; those behind a failed event only where `outbox.on-failed` is `hold`", body = BlockedPage),
        (status = 404, description = "There is no such tenant for you"),
    ),
)]
async fn blocked(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    mut parameters: Parameters,
) -> Answer {
    let tenant = parameters.tenant();
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = operations::blocked(&edge.app.outbox, &context.operator()?, tenant, before, limit).await?;
    Done::page(page.items.into_iter().map(BlockedView::from).collect(), page.next)
}

/// Lets the later events of an aggregate pass.
#[utoipa::path(
    post,
    path = "/blocked/{aggregateType}/{aggregateId}/release",
    operation_id = "releaseAggregate",
    tag = "operators",
    params(
        ("aggregateType" = kinds::EventType, Path, description = "`Order`, `Payment`, ..."),
        ("aggregateId" = kinds::AggregateId, Path, description = "Its id"),
    ),
    request_body(content = Option<bodies::ReleaseRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "How many events hold nothing any more", body = ReleaseView),
        (status = 404, description = "There is no such aggregate, or no such tenant for you"),
        (status = 409, description = "Nothing is ever held: `outbox.on-failed` is `continue`"),
    ),
)]
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
    let released =
        operations::release_aggregate(&edge.app.outbox, &context.operator()?, tenant, aggregate, reason)
            .await?;
    Done::ok(&ReleaseView::new(kind, id, released))
}
