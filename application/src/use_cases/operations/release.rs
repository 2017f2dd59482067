//! An operator lets the later events of an aggregate pass those that failed.

use std::sync::Arc;

use handover_domain::{AggregateRef, TenantId};

use super::{Action, Reason, asked, done_before};
use crate::ports::AuditEntry;
use crate::use_cases::UseCaseError;
use crate::use_cases::queries::visible_tenant;
use crate::{App, CommandContext, with_tx};

/// Lets later events of the aggregate pass its `FAILED` ones for good; tells how many those are. They stay `FAILED`, and
/// can be redriven. It matters only where failed events hold later ones (`outbox.on-failed = "hold"`).
///
/// The aggregate is the caller's tenant's, where no other is named. One of which nothing holds anything is not found.
pub async fn release_aggregate(
    app: &App,
    context: &CommandContext,
    tenant: Option<TenantId>,
    (kind, id): (String, i64),
    reason: Option<Reason>,
) -> Result<u64, UseCaseError> {
    let tenant = visible_tenant(context, tenant)?.unwrap_or(context.tenant);
    let aggregate = AggregateRef { tenant, kind, id };
    let selection = asked([
        ("aggregateType", Some(aggregate.kind.as_str().into())),
        ("aggregateId", Some(id.into())),
        ("tenantId", Some(tenant.get().into())),
    ]);
    let action = Action { name: "outbox.release", selection, reason };
    let job = Arc::new((aggregate, action.entry(context, (1, 1), app.now())));
    with_tx(&app.tx, move |unit, attempt| {
        let job = Arc::clone(&job);
        Box::pin(async move {
            let (aggregate, entry) = &*job;
            if let Some(changed) = done_before(unit, attempt, entry).await? {
                return Ok(changed);
            }
            let changed = unit.release(aggregate, entry.at).await?;
            if changed == 0 {
                return Err(UseCaseError::NotFound { what: "blocked aggregate" });
            }
            unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
            Ok(changed)
        })
    })
    .await
}
