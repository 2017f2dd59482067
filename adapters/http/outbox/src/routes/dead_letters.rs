//! `/dead-letters`: list, replay and discard dead letters.

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::operations;
use handover_outbox::operations::{DeadLetterSelection, DiscardDeadLetters, Named, ReplayDeadLetters};
use handover_outbox::ports::{DeadLetterFilter, DeadLetterStatus};

use crate::bodies;
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::messages;
use crate::openapi::{Paging, TENANT, TENANT_NOT_FOUND, kinds};
use crate::operator_call::OperatorCall;
use crate::queries;
use crate::query::Parameters;
use crate::response::{Done, PageView, RouteResult};
use crate::views::{DeadLetterView, DiscardView, ReplayView};

type DeadLetterPage = PageView<DeadLetterView>;

queries! {
    DeadLetterQuery {
        key: String = kinds::DeadLetterKey, "Only the dead letters with this key, one per queue";
        queue: String = kinds::QueueName, "Only dead letters of this queue";
        event_type: String = kinds::EventType, "Only dead letters of this event type";
        status: DeadLetterStatus = kinds::DeadLetterStatus, "Only dead letters with this status";
        tenant_id: TenantId = kinds::Id, TENANT;
        from: DateTime<Utc> = kinds::Time, "Earliest time of the last failure (inclusive)";
        to: DateTime<Utc> = kinds::Time, "Latest time of the last failure (exclusive)";
    }
}

/// Lists dead letters: messages that a consumer could not process.
#[utoipa::path(
    get,
    path = "/dead-letters",
    operation_id = "deadLetters",
    tag = "operators",
    params(DeadLetterQuery, Paging),
    responses(
        (status = 200, description = "A page of dead letters", body = DeadLetterPage),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn page(
    OperatorCall { outbox, operator }: OperatorCall,
    parameters: Parameters,
) -> RouteResult {
    let (query, before, limit) = parameters.page::<DeadLetterQuery, _>()?;
    let DeadLetterQuery { key, queue, event_type, status, tenant_id: tenant, from, to } = query;
    let filter = DeadLetterFilter { tenant, key, queue, event_type, status, from, to, above_id: None };
    let page = operations::dead_letters(&outbox, &operator, filter, before, limit).await?;
    Done::page(page, DeadLetterView::from)
}

/// Replays dead letters: sends them to their consumers again.
#[utoipa::path(
    post,
    path = "/dead-letters/replay",
    operation_id = "replayDeadLetters",
    tag = "operators",
    request_body = bodies::ReplayRequest,
    responses(
        (status = 200, description = "The result", body = ReplayView),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn replay(
    OperatorCall { outbox, operator }: OperatorCall,
    JsonBody(body): JsonBody<bodies::ReplayRequest>,
) -> RouteResult {
    let command = body.command(|body, fields| {
        let selection = selection(body.keys, body.queue, body.filter, fields)?;
        Some(ReplayDeadLetters { selection, dry_run: body.dry_run?.unwrap_or(false), reason: body.reason? })
    })?;
    let replayed = operations::replay_dead_letters(&outbox, &operator, command).await?;
    Done::ok(&ReplayView::from(replayed))
}

/// Discards dead letters.
#[utoipa::path(
    post,
    path = "/dead-letters/discard",
    operation_id = "discardDeadLetters",
    tag = "operators",
    request_body = bodies::DiscardRequest,
    responses(
        (status = 200, description = "The result", body = DiscardView),
        (status = 404, description = TENANT_NOT_FOUND),
    ),
)]
pub(crate) async fn discard(
    OperatorCall { outbox, operator }: OperatorCall,
    JsonBody(body): JsonBody<bodies::DiscardRequest>,
) -> RouteResult {
    let command = body.command(|body, fields| {
        let selection = selection(body.keys, body.queue, body.filter, fields)?;
        Some(DiscardDeadLetters { selection, dry_run: body.dry_run?.unwrap_or(false), reason: body.reason? })
    })?;
    let discarded = operations::discard_dead_letters(&outbox, &operator, command).await?;
    Done::ok(&DiscardView::from(discarded))
}

/// Converts the fields of the body into a selection: `keys` with an optional `queue`, or `filter`. An empty filter
/// selects all open dead letters.
fn selection(
    keys: Option<Option<Named<String>>>,
    queue: Option<Option<String>>,
    filter: Option<Option<DeadLetterSelection>>,
    fields: &mut Fields,
) -> Option<DeadLetterSelection> {
    match (keys?, filter?) {
        (Some(keys), None) => Some(DeadLetterSelection::Keys { keys, queue: queue? }),
        (None, Some(filter)) => match queue? {
            None => Some(filter),
            Some(_) => fields.reject("queue", messages::QUEUE_WITH_FILTER),
        },
        (None, None) => fields.reject("keys", messages::KEYS_OR_FILTER),
        (Some(_), Some(_)) => fields.reject("filter", messages::KEYS_OR_FILTER),
    }
}
