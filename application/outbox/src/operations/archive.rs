//! Archiving by an operator.

use std::time::Duration;

use handover_events::{EventId, Json, OutboxStatus};

use super::{Action, OperationError, Operator, changed_by_earlier_attempt, present_fields};
use crate::archive::{Archive, ArchiveMark, ArchiveReport, RetentionPolicy};
use crate::outbox::Outbox;
use crate::ports::{ArchiveQueries, ArchivedEvent, AuditEntry, OutboxFilter, StoreError};
use crate::transaction::with_tx;

/// Maximum number of events that one call collects, apart from the last page. The pauses between its units of work make a
/// call with more of them too long.
const MAX_EVENTS: usize = 1_000;

/// Command: which events to archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEvents {
    /// Only events that were confirmed this long ago; `None`: according to the retention policy of the archive.
    pub older_than: Option<Duration>,
    /// Whether to report only what would happen.
    pub dry_run: bool,
}

/// Archives some of the events that may leave the outbox, or reports what would happen. Repeating the call continues.
///
/// # Errors
/// [`OperationError::ForAllTenants`]: the files contain the events of all tenants.
pub async fn archive_events(
    archive: &Archive,
    operator: &Operator,
    command: ArchiveEvents,
) -> Result<ArchiveReport, OperationError> {
    if !operator.sees_all_tenants {
        return Err(OperationError::ForAllTenants);
    }
    let tx = &archive.outbox.tx;
    let older_than = command.older_than.map(|after| Json::from(format!("{}s", after.as_secs())));
    let action = Action {
        name: "outbox.archive",
        selection: present_fields([("olderThan", older_than)]),
        reason: None,
    };
    let archive = match command.older_than {
        Some(after) => archive.clone().with_policy(RetentionPolicy::new(after)),
        None => archive.clone(),
    };
    if command.dry_run {
        let report = archive.preview().await?;
        action.dry_run().record(tx, operator, None, report.events).await?;
        return Ok(report);
    }
    let entry = action.entry(operator, (1, 1), archive.outbox.now());
    // A task of its own: a caller that is cancelled, such as a request that took too long, must not prevent the audit entry.
    let run = archive.outbox.clone().spawn(async move { run_and_record(&archive, entry).await }).await;
    match run {
        Ok(Some(report)) => report,
        Ok(None) => Err(StoreError::CommitUnknown("the process is stopping".into()).into()),
        Err(panic) => Err(StoreError::CommitUnknown(Box::new(panic)).into()),
    }
}

/// Runs the archive and records in the audit log what was done, also if the run failed.
async fn run_and_record(archive: &Archive, entry: AuditEntry) -> Result<ArchiveReport, OperationError> {
    let mut report = ArchiveReport::default();
    let outcome = archive.run_into(&mut ArchiveMark::default(), MAX_EVENTS, &mut report).await;
    let entry = AuditEntry { matched: report.events, changed: report.events, ..entry };
    with_tx(&archive.outbox.tx, entry, |unit, entry, attempt| {
        Box::pin(async move {
            if changed_by_earlier_attempt(unit.outbox(), attempt, entry).await?.is_none() {
                unit.outbox().audit(entry).await?;
            }
            Ok::<_, StoreError>(())
        })
    })
    .await?;
    outcome?;
    Ok(report)
}

/// Those of these events that are in the archive and that the operator may see.
pub(super) async fn archived_among(
    outbox: &Outbox,
    operator: &Operator,
    events: &[EventId],
) -> Result<Vec<ArchivedEvent>, OperationError> {
    let tenant = operator.visible(None)?;
    let mut archived = outbox.view().await?.outbox_view().archived_by_event(events).await?;
    archived.retain(|event| tenant.is_none_or(|tenant| event.aggregate.tenant == tenant));
    Ok(archived)
}

/// The error about events that are in the archive, if the operator may see one of them.
pub(super) async fn refused_if_archived(
    outbox: &Outbox,
    operator: &Operator,
    events: &[EventId],
) -> Result<(), OperationError> {
    match archived_among(outbox, operator, events).await?.pop() {
        Some(event) => Err(OperationError::Archived { event: event.event_id }),
        None => Ok(()),
    }
}

/// The error about a filter for `SENT` events of one aggregate that an archived event matches. No index supports other
/// filters in the archive.
pub(super) async fn refused_if_aggregate_is_archived(
    archived: &mut (impl ArchiveQueries + ?Sized),
    filter: &OutboxFilter,
) -> Result<(), OperationError> {
    let names_aggregate = filter.aggregate_type.is_some() && filter.aggregate_id.is_some();
    if !names_aggregate || filter.status != Some(OutboxStatus::Sent) {
        return Ok(());
    }
    match archived.archived_page(filter, None, 1).await?.pop() {
        Some(event) => Err(OperationError::ArchivedAggregate { aggregate: event.aggregate }),
        None => Ok(()),
    }
}
