//! Restore: returns archived events to the outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use handover_events::{AggregateRef, EventId, Json, TenantId};

use super::{
    Action, ActionUnit, Named, OperationError, Operator, Reason, changed_by_earlier_attempt, common_tenant,
    count, present_fields, rfc3339,
};
use crate::archive::{Archive, MAX_BATCH};
use crate::metrics::RESTORED;
use crate::ports::{ArchiveFile, ArchivedEvent, AuditEntry, Numbered, OutboxView, StoreError, StoredEvent};
use crate::transaction::with_tx;

/// A call reads no further file of the archive once it has restored this number of events.
pub const MAX_RESTORED: u64 = 10_000;

/// Recorded files per page.
const FILES: u32 = 500;

/// Selects archived events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreSelection {
    /// The events with these ids.
    Events(Named<EventId>),
    /// The events of an aggregate.
    Aggregate(AggregateRef),
    /// The events that happened at `from` or later and before `to`.
    Period {
        /// Begin.
        from: DateTime<Utc>,
        /// End.
        to: DateTime<Utc>,
    },
}

/// Command: the archived events to restore, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreEvents {
    /// Selected events.
    pub events: RestoreSelection,
    /// Reason, for the audit log.
    pub reason: Reason,
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Number of events that returned to the outbox.
    pub restored: u64,
    /// Requested ids that are not in the archive or that belong to another tenant.
    pub not_found: Vec<EventId>,
    /// Whether archived events remain that the selection matches.
    pub more: bool,
}

/// Returns events to the outbox as they were when they were archived. A new retention time begins: they are archived again when
/// it is over.
pub async fn restore_events(
    archive: &Archive,
    operator: &Operator,
    command: RestoreEvents,
) -> Result<Restored, OperationError> {
    let tenant = match &command.events {
        RestoreSelection::Aggregate(of) => operator.visible(Some(of.tenant))?,
        RestoreSelection::Events(_) | RestoreSelection::Period { .. } => operator.visible(None)?,
    };
    let action = Action {
        name: "outbox.restore",
        selection: selection(&command.events),
        reason: Some(command.reason.clone()),
    };
    let wanted = Wanted::select(archive, tenant, &command.events).await?;
    let mut restored = Restored { not_found: wanted.not_found, ..Restored::default() };
    let has_several_files = wanted.files.len() > 1;
    for file in wanted.files {
        if restored.restored >= MAX_RESTORED {
            restored.more = true;
            break;
        }
        let mut is_one_of_several = has_several_files;
        let selected = (tenant, &command.events);
        while restore_file(archive, operator, &action, selected, (file.id, is_one_of_several), &mut restored)
            .await?
            == FileState::Replaced
        {
            is_one_of_several = true;
        }
    }
    if restored.restored == 0 {
        let owner = common_tenant(wanted.tenants.into_iter()).or(tenant);
        action.record(&archive.outbox.tx, operator, owner, 0).await?;
    }
    Ok(restored)
}

/// Whether an erasure has replaced a file since it was read.
#[derive(PartialEq, Eq)]
enum FileState {
    Unchanged,
    Replaced,
}

/// Restores the selected events of a file.
async fn restore_file(
    archive: &Archive,
    operator: &Operator,
    action: &Action,
    selected: (Option<TenantId>, &RestoreSelection),
    (file, is_one_of_several): (i64, bool),
    restored: &mut Restored,
) -> Result<FileState, OperationError> {
    let (tenant, selection) = selected;
    let (file, events) = archive.read_recorded(file).await?;
    let events = archived_in(archive, tenant, &file, events, selection).await?;
    let mut action = action.clone();
    if is_one_of_several {
        // A unit of work finds its own audit entry after a commit of unknown outcome, not that of another file.
        action.selection.push(("file".to_owned(), file.effect.name.as_str().into()));
    }
    for unit in action.units(operator, events, MAX_BATCH, archive.outbox.now()) {
        let Some(returned) = restore_unit(archive, &file, unit).await? else {
            return Ok(FileState::Replaced);
        };
        restored.restored += returned;
        metrics::counter!(RESTORED).increment(returned);
    }
    Ok(FileState::Unchanged)
}

/// The files that contain selected events.
struct Wanted {
    files: Vec<Numbered<ArchiveFile>>,
    tenants: BTreeSet<TenantId>,
    not_found: Vec<EventId>,
}

impl Wanted {
    async fn select(
        archive: &Archive,
        tenant: Option<TenantId>,
        selection: &RestoreSelection,
    ) -> Result<Wanted, StoreError> {
        let mut view = archive.outbox.view().await?;
        let view = view.outbox_view();
        let mut archived = match selection {
            RestoreSelection::Events(events) => view.archived_by_event(events.as_slice()).await?,
            RestoreSelection::Aggregate(of) => view.archived_about(std::slice::from_ref(of)).await?,
            RestoreSelection::Period { .. } => Vec::new(),
        };
        archived.retain(|event| is_visible(event, tenant));
        let named: BTreeSet<i64> = archived.iter().map(|event| event.file).collect();
        let found: BTreeSet<&EventId> = archived.iter().map(|event| &event.event_id).collect();
        let not_found = match selection {
            RestoreSelection::Events(events) => {
                events.as_slice().iter().filter(|id| !found.contains(id)).cloned().collect()
            }
            RestoreSelection::Aggregate(_) | RestoreSelection::Period { .. } => Vec::new(),
        };
        let files = recorded_files(view, |file| match selection {
            RestoreSelection::Events(_) | RestoreSelection::Aggregate(_) => named.contains(&file.id),
            RestoreSelection::Period { from, to } => may_contain(&file.effect, *from, *to),
        })
        .await?;
        if let Some(unknown) = named.iter().find(|id| files.iter().all(|file| file.id != **id)) {
            return Err(StoreError::Corrupt {
                table: "outbox_archived_events",
                column: "file_id",
                key: unknown.to_string(),
                why: "no such file is recorded in outbox_archive_files".to_owned(),
            });
        }
        let tenants = archived.iter().map(|event| event.aggregate.tenant).collect();
        Ok(Wanted { files, tenants, not_found })
    }
}

/// Those of the recorded files that are wanted, oldest first.
pub(super) async fn recorded_files(
    view: &mut dyn OutboxView,
    is_wanted: impl Fn(&Numbered<ArchiveFile>) -> bool + Send,
) -> Result<Vec<Numbered<ArchiveFile>>, StoreError> {
    let mut files = Vec::new();
    let mut before = None;
    loop {
        let page = view.archive_files(before, FILES).await?;
        before = page.last().filter(|_| page.len() == FILES as usize).map(|file| file.id);
        files.extend(page.into_iter().filter(&is_wanted));
        if before.is_none() {
            files.reverse();
            return Ok(files);
        }
    }
}

fn is_visible(event: &ArchivedEvent, tenant: Option<TenantId>) -> bool {
    tenant.is_none_or(|tenant| event.aggregate.tenant == tenant)
}

/// Whether a file may contain events of this period. Its name begins with the day of its events.
fn may_contain(file: &ArchiveFile, from: DateTime<Utc>, to: DateTime<Utc>) -> bool {
    let day = file.name.get(..10).and_then(|day| NaiveDate::parse_from_str(day, "%Y/%m/%d").ok());
    day.is_none_or(|day| (from.date_naive()..=to.date_naive()).contains(&day))
}

/// The selected events that are archived in a file, with their tenants.
async fn archived_in(
    archive: &Archive,
    tenant: Option<TenantId>,
    file: &Numbered<ArchiveFile>,
    events: Vec<StoredEvent>,
    selection: &RestoreSelection,
) -> Result<Vec<(TenantId, StoredEvent)>, OperationError> {
    let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
    let archived = archive.outbox.view().await?.outbox_view().archived_by_event(&ids).await?;
    let is_selected = |event: &ArchivedEvent| match selection {
        RestoreSelection::Events(events) => events.as_slice().contains(&event.event_id),
        RestoreSelection::Aggregate(of) => event.aggregate == *of,
        RestoreSelection::Period { from, to } => (*from..*to).contains(&event.create_time),
    };
    let archived = archived.into_iter().filter(|event| event.file == file.id && is_visible(event, tenant));
    let tenants: BTreeMap<EventId, TenantId> =
        archived.filter(is_selected).map(|event| (event.event_id, event.aggregate.tenant)).collect();
    let selected = events.into_iter().filter_map(|event| Some((*tenants.get(&event.event_id)?, event)));
    Ok(selected.collect())
}

/// Runs one unit of work. Returns the number of restored events; `None`, without a change, if an erasure has replaced the file since
/// it was read.
async fn restore_unit(
    archive: &Archive,
    file: &Numbered<ArchiveFile>,
    unit: ActionUnit<StoredEvent>,
) -> Result<Option<u64>, StoreError> {
    let input = Arc::new((file.clone(), unit));
    with_tx(&archive.outbox.tx, input, |unit, input, attempt| {
        Box::pin(async move {
            let (file, ActionUnit { rows, entry }) = &**input;
            if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                return Ok(Some(changed));
            }
            let current = unit.outbox().lock_archive_file(file.id).await?;
            if current.is_none_or(|current| current.name != file.effect.name) {
                return Ok(None);
            }
            let changed = count(unit.outbox().restore(rows, entry.at).await?.len());
            unit.outbox().audit(&AuditEntry { changed, ..entry.clone() }).await?;
            Ok(Some(changed))
        })
    })
    .await
}

/// The selection as JSON fields, for the audit log.
fn selection(events: &RestoreSelection) -> Vec<(String, Json)> {
    match events {
        RestoreSelection::Events(events) => {
            present_fields([("eventIds", Some(events.as_slice().iter().map(EventId::as_str).collect()))])
        }
        RestoreSelection::Aggregate(of) => present_fields([
            ("aggregateType", Some(of.kind.as_str().into())),
            ("aggregateId", Some((&of.id).into())),
            ("tenantId", Some(of.tenant.get().into())),
        ]),
        RestoreSelection::Period { from, to } => {
            present_fields([("from", Some(rfc3339(*from))), ("to", Some(rfc3339(*to)))])
        }
    }
}
