//! An operator lets the later events of an aggregate pass those that failed.

use std::sync::Arc;

use handover_events::{AggregateRef, TenantId};

use super::{Action, OperationError, Operator, Reason, asked, done_before};
use crate::ports::{AuditEntry, OnFailed, StoreError};
use crate::{Outbox, with_tx};

/// Lets later events of the aggregate pass its `FAILED` ones for good; tells how many those are. They stay `FAILED`, and
/// can be redriven. Where failed events hold no later ones (`outbox.on-failed = "continue"`) it is refused.
///
/// The aggregate is the caller's tenant's, where no other is named. One of which nothing holds anything is not found.
pub async fn release_aggregate(
    outbox: &Outbox,
    operator: &Operator,
    tenant: Option<TenantId>,
    (kind, id): (String, i64),
    reason: Option<Reason>,
) -> Result<u64, OperationError> {
    let tenant = operator.visible(tenant)?.unwrap_or(operator.tenant);
    match outbox.on_failed {
        OnFailed::Continue => return Err(OperationError::NothingHeld),
        OnFailed::Hold => {}
    }
    let aggregate = AggregateRef { tenant, kind, id };
    let selection = asked([
        ("aggregateType", Some(aggregate.kind.as_str().into())),
        ("aggregateId", Some(id.into())),
        ("tenantId", Some(tenant.get().into())),
    ]);
    let action = Action { name: "outbox.release", selection, reason };
    let entry = AuditEntry { tenant, ..action.entry(operator, (1, 1), outbox.now()) };
    let job = Arc::new((aggregate, entry, Arc::clone(&outbox.registry)));
    let released: Result<u64, StoreError> = with_tx(&outbox.tx, move |unit, attempt| {
        let job = Arc::clone(&job);
        Box::pin(async move {
            let (aggregate, entry, registry) = &*job;
            if let Some(changed) = done_before(unit.outbox(), attempt, entry).await? {
                return Ok(changed);
            }
            let changed = unit.outbox().release(aggregate, registry.unordered(), entry.at).await?;
            unit.outbox().audit(&AuditEntry { matched: changed, changed, ..entry.clone() }).await?;
            Ok(changed)
        })
    })
    .await;
    match released? {
        0 => Err(OperationError::NotFound { what: "blocked aggregate" }),
        released => Ok(released),
    }
}
