//! `/outbox/archive`, `/outbox/restore`: move events between the outbox and the archive.

use handover_outbox::Outbox;
use handover_outbox::archive::Archive;
use handover_outbox::operations;
use handover_outbox::operations::{ArchiveEvents, RestoreEvents};

use crate::bodies;
use crate::body::{JsonBody, OptionalBody};
use crate::envelope::Code;
use crate::messages;
use crate::openapi::TENANT_NOT_FOUND;
use crate::operator_call::OperatorCall;
use crate::refusal::Refusal;
use crate::response::{Done, RouteResult};
use crate::views::{ArchiveView, RestoreView};

fn archive_of(outbox: &Outbox) -> Result<Archive, Refusal> {
    Archive::of(outbox).ok_or_else(|| Refusal::new(Code::CONFLICT, messages::NO_ARCHIVE))
}

/// Archives about 1,000 settled events of all tenants.
///
/// Events leave the outbox if every consumer has settled them and their retention time is over. `more` says whether to repeat the
/// call.
#[utoipa::path(
    post,
    path = "/outbox/archive",
    operation_id = "archiveEvents",
    tag = "operators",
    request_body(content = Option<bodies::ArchiveRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The result; with `dryRun`, what would happen, and `bytes` is the size before compression", body = ArchiveView),
        (status = 403, description = "The caller is not an operator of all tenants"),
        (status = 409, description = "The archive is off: `archive.url` is not set"),
    ),
)]
pub(crate) async fn archive(
    OperatorCall { outbox, operator }: OperatorCall,
    OptionalBody(body): OptionalBody<bodies::ArchiveRequest>,
) -> RouteResult {
    let command = body.command(|body, _| {
        let dry_run = body.dry_run?.unwrap_or(false);
        Some(ArchiveEvents { older_than: body.older_than?, dry_run })
    })?;
    let dry_run = command.dry_run;
    let report = operations::archive_events(&archive_of(&outbox)?, &operator, command).await?;
    Done::ok(&ArchiveView::new(report, dry_run))
}

/// Returns archived events to the outbox.
///
/// At most about 10,000 events per call; `more` says whether to repeat the call. An event that is not redriven is archived again
/// later.
#[utoipa::path(
    post,
    path = "/outbox/restore",
    operation_id = "restoreEvents",
    tag = "operators",
    request_body = bodies::RestoreRequest,
    responses(
        (status = 200, description = "The result", body = RestoreView),
        (status = 404, description = TENANT_NOT_FOUND),
        (status = 409, description = "The archive is off: `archive.url` is not set"),
    ),
)]
pub(crate) async fn restore(
    OperatorCall { outbox, operator }: OperatorCall,
    JsonBody(body): JsonBody<bodies::RestoreRequest>,
) -> RouteResult {
    let command = body.command(|body, fields| {
        let reason = body.reason?;
        let events =
            bodies::restored(body.event_ids?, body.aggregate?, (body.from?, body.to?), operator.tenant);
        match events {
            Some(events) => Some(RestoreEvents { events, reason }),
            None => fields.reject("eventIds", messages::RESTORE_SELECTION),
        }
    })?;
    let restored = operations::restore_events(&archive_of(&outbox)?, &operator, command).await?;
    Done::ok(&RestoreView::from(restored))
}
