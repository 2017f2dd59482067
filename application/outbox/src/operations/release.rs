//! Releases a blocked aggregate.

use std::sync::Arc;

use handover_events::{AggregateId, AggregateRef, TenantId};

use super::{Action, OperationError, Operator, Reason, changed_by_earlier_attempt, present_fields};
use crate::outbox::Outbox;
use crate::ports::{AuditEntry, OnFailed, StoreError};
use crate::process_report::running_on_failed;
use crate::transaction::with_tx;

/// Releases a blocked aggregate: its current `FAILED` events no longer block later ones. Returns the number of
/// released events. They stay `FAILED` and can be redriven. Fails with [`OperationError::NothingBlocked`] if failed events
/// do not block later ones (`outbox.on-failed = "continue"`).
///
/// Without a tenant, the aggregate belongs to the operator's tenant. An aggregate that is not blocked is reported as
/// not found.
pub async fn release_aggregate(
    outbox: &Outbox,
    operator: &Operator,
    tenant: Option<TenantId>,
    (kind, id): (String, AggregateId),
    reason: Option<Reason>,
) -> Result<u64, OperationError> {
    let tenant = operator.visible(tenant)?.unwrap_or(operator.tenant);
    let on_failed = running_on_failed(outbox, outbox.view().await?.outbox_view()).await?;
    match on_failed {
        OnFailed::Continue => return Err(OperationError::NothingBlocked),
        OnFailed::Hold => {}
    }
    let aggregate = AggregateRef { tenant, kind, id };
    let selection = present_fields([
        ("aggregateType", Some(aggregate.kind.as_str().into())),
        ("aggregateId", Some((&aggregate.id).into())),
        ("tenantId", Some(tenant.get().into())),
    ]);
    let action = Action { name: "outbox.release", selection, reason };
    let entry = AuditEntry { tenant, ..action.entry(operator, (1, 1), outbox.now()) };
    let input = (aggregate, entry, Arc::clone(&outbox.registry));
    let released = with_tx(&outbox.tx, input, |unit, (aggregate, entry, registry), attempt| {
        Box::pin(async move {
            if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                return Ok(changed);
            }
            let changed = unit.outbox().release(aggregate, registry.unordered(), entry.at).await?;
            unit.outbox().audit(&AuditEntry { matched: changed, changed, ..entry.clone() }).await?;
            Ok::<_, StoreError>(changed)
        })
    })
    .await;
    match released? {
        0 => Err(OperationError::NotFound { what: "blocked aggregate" }),
        released => Ok(released),
    }
}
