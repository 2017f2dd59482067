//! `/api/v1/ops/users`: erasure of the texts about a user.

use handover_http::body::JsonBody;
use handover_http::response::Done;
use marketplace_domain::UserId;

use crate::bodies;
use crate::command::Afterwards;
use crate::openapi::kinds;
use crate::path::PathId;
use crate::refusal::RouteResult;
use crate::views::ErasedUserView;

/// Erases a user: masks the texts that the user wrote, or that describe the user, in all tenants.
///
/// Ids, amounts and times stay. What is not finished or settled is left and counted: repeat the call later. A repeated call
/// changes nothing that is masked.
#[utoipa::path(
    post,
    path = "/users/{userId}/erasure",
    operation_id = "eraseUser",
    tag = "operators",
    params(("userId" = kinds::Id, Path, description = "The user")),
    request_body = bodies::Decision,
    responses(
        (status = 200, description = "What was masked and what was left", body = ErasedUserView),
        (status = 404, description = "The user id is not valid"),
    ),
)]
pub(super) async fn erase(
    Afterwards(edge, context): Afterwards,
    PathId(user): PathId<UserId>,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let reason = body.command(|body, _| body.reason)?;
    let erased = edge.app.operations.erase_user(&edge.app.outbox, &context, user, reason).await?;
    Done::ok(&ErasedUserView::from(erased))
}
