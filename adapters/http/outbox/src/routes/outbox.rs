//! `/outbox`, `/blocked`: list and redrive events, release blocked aggregates.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use handover_events::{AggregateId, OutboxStatus, TenantId};
use handover_outbox::operations;
use handover_outbox::operations::{RedriveEvents, RedriveSelection};
use handover_outbox::ports::OutboxFilter;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::inspection::TenantQuery;
use crate::bodies;
use crate::body::{JsonBody, OptionalBody};
use crate::messages;
use crate::openapi::{Paging, TENANT, TENANT_NOT_FOUND, kinds};
use crate::operator_call::OperatorCall;
use crate::path::{PathAggregate, PathEvent};
use crate::queries;
use crate::query::Parameters;
use crate::refusal::Refusal;
use crate::response::{Done, PageView, RouteResult};
use crate::views::{ArchivedEventView, BlockedView, EventView, RedriveView, ReleaseView};

type BlockedPage = PageView<BlockedView>;
type EventPage = PageView<EventView>;
type ArchivedEventPage = PageView<ArchivedEventView>;

/// A page of events in the outbox, or of events in the archive. An empty page is both.
enum EventsPage {}

impl PartialSchema for EventsPage {
    fn schema() -> RefOr<Schema> {
        let outbox = Ref::from_schema_name(EventPage::name());
        AnyOfBuilder::new().item(outbox).item(Ref::from_schema_name(ArchivedEventPage::name())).into()
    }
}

impl ToSchema for EventsPage {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("EventsPage")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((EventPage::name().into_owned(), EventPage::schema()));
        EventPage::schemas(schemas);
        schemas.push((ArchivedEventPage::name().into_owned(), ArchivedEventPage::schema()));
        ArchivedEventPage::schemas(schemas);
    }
}

queries! {
    EventQuery {
        status: OutboxStatus = kinds::OutboxStatus, "Only events with this status";
        event_type: String = kinds::EventType, "Only events of this type";
        aggregate_type: String = kinds::AggregateType, "Only events of aggregates of this type";
        aggregate_id: i64 = kinds::AggregateId, "Only events of aggregates with this id";
        aggregate_key: AggregateId = kinds::AggregateKey, "Only events of aggregates with this text key; not together with `aggregateId`";
        tenant_id: TenantId = kinds::Id, TENANT;
        from: DateTime<Utc> = kinds::Time, "Earliest commit time (inclusive)";
        to: DateTime<Utc> = kinds::Time, "Latest commit time (exclusive)";
        oldest: bool = bool, "`true`: events that are not published, the oldest first";
        archived: bool = bool, "`true`: events in the archive, all of which are SENT; not together with `status` or `oldest`";
    }
}

/// Lists events.
///
/// Newest first; with `oldest`, those that are not published, the oldest first; with `archived`, those in the archive, newest first and
/// without their content.
#[utoipa::path(
    get,
    path = "/outbox",
    operation_id = "events",
    tag = "operators",
    params(EventQuery, Paging),
    responses(
        (status = 200, description = "A page of events; with `archived`, of archived events", body = EventsPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn page(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let (query, before, limit) = parameters.page::<EventQuery, _>()?;
    let aggregate_id = bodies::id_or_key(query.aggregate_id, query.aggregate_key)
        .map_err(|both| Refusal::field(bodies::AGGREGATE_KEY, both))?;
    let filter = OutboxFilter {
        status: query.status,
        event_type: query.event_type,
        aggregate_type: query.aggregate_type,
        aggregate_id,
        tenant: query.tenant_id,
        from: query.from,
        to: query.to,
        ..OutboxFilter::default()
    };
    if query.archived == Some(true) {
        if filter.status.is_some() || query.oldest == Some(true) {
            return Err(Refusal::field("archived", messages::ARCHIVED_ALONE));
        }
        let page = operations::archived_events(&outbox, &operator, filter, before, limit).await?;
        return Done::page(page, ArchivedEventView::from);
    }
    let page = match query.oldest {
        Some(true) => operations::oldest_events(&outbox, &operator, filter, before, limit).await?,
        Some(false) | None => operations::outbox(&outbox, &operator, filter, before, limit).await?,
    };
    Done::page(page, EventView::from)
}

/// Returns an event, also one in the archive.
#[utoipa::path(
    get,
    path = "/outbox/{eventId}",
    operation_id = "event",
    tag = "operators",
    params(("eventId" = kinds::EventId, Path, description = "The event")),
    responses(
        (status = 200, description = "The event", body = EventView),
        (status = 404, description = "Event not found in a tenant accessible to the caller"),
        (status = 409, description = "The event is in the archive, and the archive is off in this process"),
        (status = 503, description = "The event is in the archive, whose storage is unavailable"),
    ),
)]
pub(crate) async fn one(
    OperatorCall { outbox, operator }: OperatorCall,
    PathEvent(id): PathEvent,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let row = operations::find_event(&outbox, &operator, &id).await?;
    Done::ok(&EventView::from(row))
}

/// Redrives events.
///
/// FAILED events are retried. SENT events are sent a second time; consumers skip events that they have already processed.
/// With a filter for SENT events without an aggregate id, one call searches at most 100,000 ids: if `more` is true, continue with
/// `nextCursor`, also if no events matched.
#[utoipa::path(
    post,
    path = "/outbox/redrive",
    operation_id = "redriveEvents",
    tag = "operators",
    request_body = bodies::RedriveRequest,
    responses(
        (status = 200, description = "The result", body = RedriveView),
        (status = 404, description = TENANT_NOT_FOUND),
        (status = 409, description = "A named event, or a SENT event of the aggregate that the filter names, is in the archive; the message names the command that restores it. Nothing was changed"),
    ),
)]
pub(crate) async fn redrive(
    OperatorCall { outbox, operator }: OperatorCall,
    JsonBody(body): JsonBody<bodies::RedriveRequest>,
) -> RouteResult {
    let command = body.command(|body, fields| {
        let rows = match (body.event_ids?, body.filter?) {
            (Some(events), None) => RedriveSelection::Events(events),
            (None, Some(filter)) => RedriveSelection::Filter { filter, after: body.cursor? },
            (None, None) => return fields.reject("eventIds", messages::IDS_OR_FILTER),
            (Some(_), Some(_)) => return fields.reject("filter", messages::IDS_OR_FILTER),
        };
        let dry_run = body.dry_run?.unwrap_or(false);
        Some(RedriveEvents {
            rows,
            dry_run,
            pace: body.per_second?.unwrap_or_default(),
            reason: body.reason?,
        })
    })?;
    let redriven = operations::redrive_events(&outbox, &operator, command).await?;
    Done::ok(&RedriveView::from(redriven))
}

/// Lists aggregates whose next event cannot be published yet: it is not due, or it waits behind a FAILED event that was not released.
#[utoipa::path(
    get,
    path = "/blocked",
    operation_id = "blockedAggregates",
    tag = "operators",
    params(TenantQuery, Paging),
    responses(
        (status = 200, description = "A page of aggregates; failed events block later ones only if `outbox.on-failed` is `hold`", body = BlockedPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn blocked(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let (TenantQuery { tenant_id: tenant }, before, limit) = parameters.page()?;
    let page = operations::blocked(&outbox, &operator, tenant, before, limit).await?;
    Done::page(page, BlockedView::from)
}

/// Releases a blocked aggregate: its failed events no longer block later events.
#[utoipa::path(
    post,
    path = "/blocked/{aggregateType}/{aggregateId}/release",
    operation_id = "releaseAggregate",
    tag = "operators",
    params(
        ("aggregateType" = kinds::AggregateType, Path, description = "Aggregate type: `Account`, ..."),
        ("aggregateId" = kinds::AnyAggregateId, Path, description = "Aggregate id: an integer, or a text key; a text key that looks like an integer is written in double quotes"),
    ),
    request_body(content = Option<bodies::ReleaseRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The number of failed events that no longer block later ones", body = ReleaseView),
        (status = 404, description = "No such blocked aggregate, or the tenant is not accessible to the caller"),
        (status = 409, description = "Failed events block nothing, because `outbox.on-failed` is `continue`"),
    ),
)]
pub(crate) async fn release(
    OperatorCall { outbox, operator }: OperatorCall,
    PathAggregate { kind, id }: PathAggregate,
    OptionalBody(body): OptionalBody<bodies::ReleaseRequest>,
) -> RouteResult {
    let (reason, tenant) = body.command(|body, _| body.reason.zip(body.tenant_id))?;
    let aggregate = (kind.clone(), id.clone());
    let released = operations::release_aggregate(&outbox, &operator, tenant, aggregate, reason).await?;
    Done::ok(&ReleaseView::new(kind, id, released))
}
