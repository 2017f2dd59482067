//! Erasure of the texts about a person, in files of the archive.
//!
//! A file is not changed in place: its events are written to a new one, with the texts masked. One unit of work records the new
//! file in place of the earlier one, which is removed then.
//!
//! **Invariant:** at any moment the recorded file exists and contains its events. A file that is not recorded any more, or not
//! yet, is known as unrecorded: a later call or the job of the archive removes it after an interruption.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_events::{AggregateRef, EventId};
use tracing::warn;

use super::erase::{
    AGGREGATES, About, ErasedEvents, MAX_ERASED, erase_rows, erasure_of, for_all_tenants, unerased,
    with_first,
};
use super::restore::recorded_files;
use super::{Action, ActionUnit, MAX_NAMED, OperationError, Operator, changed_by_earlier_attempt, count};
use crate::archive::{Archive, ArchiveError, ArchiveStorageError, KeptBecause, encode, erased};
use crate::outbox::Outbox;
use crate::ports::{
    ArchiveFile, AuditEntry, Changed, MaskedTexts, Numbered, OutboxRow, StoreError, StoredEvent,
    UnrecordedFile, UnrecordedState,
};
use crate::transaction::with_tx;

/// Maximum number of unrecorded files that one call counts.
const MAX_UNRECORDED: u32 = 100;

/// Masks the texts of the events of these aggregates in the files of the archive, also in those of which the events were restored,
/// and what the database has about the archived events. Call [`erase_events`](super::erase_events) before: then no file
/// that is recorded later contains a text. One file at a time is in memory.
///
/// A file that cannot be read or written does not stop the others; it is counted.
///
/// # Errors
/// [`OperationError::ForAllTenants`]: a person is not of one tenant.
pub async fn erase_archived_events(
    outbox: &Outbox,
    operator: &Operator,
    action: &Action,
    aggregates: &[AggregateRef],
) -> Result<ErasedEvents, OperationError> {
    for_all_tenants(operator)?;
    let events = EventIds::read(outbox, aggregates).await?;
    let mut result = ErasedEvents::default();
    let archive = Archive::of(outbox);
    if let Some(archive) = &archive {
        match archive.remove_unrecorded().await {
            // It is counted below.
            Err(ArchiveError::Storage(error)) => {
                warn!(code = "erasure.file-not-removed", %error, "a file of the archive cannot be removed");
            }
            Err(ArchiveError::Store(error)) => return Err(error.into()),
            Ok(()) => {}
        }
    }
    // Before the files are listed: a file that is recorded meanwhile is counted as one that is being written, or is in the list.
    let mut view = outbox.view().await?;
    result.files_left += count(view.outbox_view().unrecorded_files(MAX_UNRECORDED).await?.len());
    let files = recorded_files(view.outbox_view(), |file| events.may_be_in(&file.effect)).await?;
    // The units of work need its connection.
    drop(view);
    for file in files {
        let erased = match &archive {
            Some(archive) => erase_file(archive, operator, action, file.id, &events).await,
            None => Err(OperationError::Archive(ArchiveStorageError::Unavailable {
                what: format!("mask texts in the file {}", file.effect.name),
                why: "this process has no archive".to_owned(),
            })),
        };
        match erased {
            Ok(erased) => result.add(erased),
            Err(OperationError::Archive(error)) => {
                warn!(code = "erasure.file-left", %error, "texts in a file of the archive are not masked");
                result.files_left += 1;
                result.archived += events.archived_in(file.id);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(result)
}

/// The row ids of a person's events, in ascending order, and the number of archived ones in each file.
struct EventIds {
    ids: Vec<i64>,
    archived: BTreeMap<i64, u64>,
}

impl EventIds {
    async fn read(outbox: &Outbox, aggregates: &[AggregateRef]) -> Result<EventIds, StoreError> {
        let mut events = EventIds { ids: Vec::new(), archived: BTreeMap::new() };
        for aggregates in aggregates.chunks(AGGREGATES) {
            let mut view = outbox.view().await?;
            let view = view.outbox_view();
            for event in view.archived_about(aggregates).await? {
                events.ids.push(event.id);
                *events.archived.entry(event.file).or_default() += 1;
            }
            // Files still contain events that were restored.
            events.ids.extend(view.outbox_about(aggregates).await?.into_iter().map(|row| row.id));
        }
        events.ids.sort_unstable();
        events.ids.dedup();
        Ok(events)
    }

    /// A file contains events of one day, so that its ids are close together.
    fn may_be_in(&self, file: &ArchiveFile) -> bool {
        let next = self.ids.partition_point(|id| *id < file.first_id);
        self.ids.get(next).is_some_and(|id| *id <= file.last_id)
    }

    fn contains(&self, event: &StoredEvent) -> bool {
        self.ids.binary_search(&event.id).is_ok()
    }

    fn archived_in(&self, file: i64) -> u64 {
        self.archived.get(&file).copied().unwrap_or_default()
    }
}

/// Masks the texts of the person's events in one file, and what the database has about those that are archived in it.
async fn erase_file(
    archive: &Archive,
    operator: &Operator,
    action: &Action,
    file: i64,
    events: &EventIds,
) -> Result<ErasedEvents, OperationError> {
    let outbox = &archive.outbox;
    let mut result = ErasedEvents::default();
    loop {
        let (file, mut content) = archive.read_recorded(file).await?;
        let mut of_file = action.clone();
        of_file.selection.push(("archiveFile".to_owned(), file.effect.name.as_str().into()));
        let entry = of_file.entry(operator, (1, 1), outbox.now());
        let erasure = erasure_of(&entry);
        let mut changed = 0;
        let mut about = Vec::new();
        for event in content.iter_mut().filter(|event| events.contains(event)) {
            let masked = erased(&outbox.registry, event, &erasure);
            changed += u64::from(masked != *event);
            about.push(masked.clone());
            *event = masked;
        }
        result.rows += erase_effects(outbox, operator, action, file.id, &about).await?;
        if changed > 0 {
            let entry = AuditEntry { matched: changed, changed, ..entry };
            match replace(archive, &file, content, entry).await? {
                Changed::One => {
                    result.files += 1;
                    result.rows += changed;
                }
                // Another call has replaced the file.
                Changed::None => continue,
            }
        }
        // An event that was restored before the file was replaced, from the earlier file.
        for events in about.chunks(MAX_NAMED) {
            let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
            let rows = outbox.view().await?.outbox_view().outbox_by_event(&ids).await?;
            let restored = erase_rows(outbox, operator, action, rows).await?;
            // Events that are not settled are counted by `erase_events`.
            result.add(ErasedEvents { left: BTreeMap::<KeptBecause, u64>::new(), ..restored });
        }
        return Ok(result);
    }
}

/// Records a new file with these events in place of a file, which is removed.
async fn replace(
    archive: &Archive,
    file: &Numbered<ArchiveFile>,
    events: Vec<StoredEvent>,
    entry: AuditEntry,
) -> Result<Changed, ArchiveError> {
    let from = &file.effect.name;
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let lines: String = events.iter().map(encode).collect();
    let name = archive.announce(folder, &events, &lines).await?;
    let written = archive.write(name.clone(), &events, lines).await?;
    let to = ArchiveFile { erased: Some(erasure_of(&entry)), ..written };
    let input = (file.clone(), to, entry);
    let replaced = with_tx(&archive.outbox.tx, Arc::new(input), |unit, input, attempt| {
        Box::pin(async move {
            let (file, to, entry) = &**input;
            let outbox = unit.outbox();
            if changed_by_earlier_attempt(outbox, attempt, entry).await?.is_some() {
                return Ok(Changed::One);
            }
            Archive::end_writing(outbox, &to.name).await?;
            let changed = outbox.replace_archive_file(file.id, &file.effect.name, to).await?;
            let obsolete = match changed {
                Changed::One => &file.effect.name,
                Changed::None => &to.name,
            };
            let state = UnrecordedState::Obsolete;
            outbox
                .add_unrecorded_file(&UnrecordedFile { name: obsolete.clone(), state, since: entry.at })
                .await?;
            if changed == Changed::One {
                outbox.audit(entry).await?;
            }
            Ok(changed)
        })
    })
    .await;
    let changed = archive.unless_given_up(&name, replaced).await?;
    archive
        .remove_obsolete(match changed {
            Changed::One => from,
            Changed::None => &name,
        })
        .await?;
    Ok(changed)
}

/// Masks what the database has about those of these masked events that are archived in a file: history, dead letters, webhook
/// deliveries. Returns the number of changed rows.
async fn erase_effects(
    outbox: &Outbox,
    operator: &Operator,
    action: &Action,
    file: i64,
    events: &[StoredEvent],
) -> Result<u64, OperationError> {
    let mut changed = 0;
    for events in events.chunks(MAX_NAMED) {
        let ids: Vec<EventId> = events.iter().map(|event| event.event_id.clone()).collect();
        let mut view = outbox.view().await?;
        let archived = view.outbox_view().archived_by_event(&ids).await?.into_iter();
        let archived: BTreeSet<EventId> =
            archived.filter(|event| event.file == file).map(|event| event.event_id).collect();
        let events: Vec<StoredEvent> =
            events.iter().filter(|event| archived.contains(&event.event_id)).cloned().collect();
        let stored = view.outbox_view().interpret_stored(&events).await?;
        let rows = stored.into_iter().map(|event| event.row).collect();
        let left = unerased(outbox, view.outbox_view(), rows).await?;
        drop(view);
        let left: Vec<_> = left.into_iter().map(|row| (row.aggregate.tenant, row)).collect();
        let action = with_first(action, left.first().map(|(_, row)| &row.event_id));
        for unit in action.units(operator, left, MAX_ERASED, outbox.now()) {
            changed += erase_effects_unit(outbox, unit).await?;
        }
    }
    Ok(changed)
}

/// Runs one unit of work. An event that was restored meanwhile is left to [`erase_rows`].
async fn erase_effects_unit(outbox: &Outbox, unit: ActionUnit<OutboxRow>) -> Result<u64, StoreError> {
    with_tx(&outbox.tx, Arc::new((outbox.clone(), unit)), |unit, input, attempt| {
        Box::pin(async move {
            let (outbox, ActionUnit { rows, entry }) = &**input;
            if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                return Ok(changed);
            }
            let events: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
            let view = unit.outbox_view();
            let archived = view.archived_by_event(&events).await?.into_iter();
            let archived: BTreeSet<EventId> = archived.map(|event| event.event_id).collect();
            let about = About::read(view, &events).await?;
            let rows = rows.iter().filter(|row| archived.contains(&row.event_id));
            let texts: Vec<MaskedTexts> = rows.map(|row| about.masked(outbox, row)).collect();
            let changed = unit.outbox().erase_events(&texts, &erasure_of(entry)).await?;
            if changed > 0 {
                unit.outbox().audit(&AuditEntry { changed, ..entry.clone() }).await?;
            }
            Ok(changed)
        })
    })
    .await
}
