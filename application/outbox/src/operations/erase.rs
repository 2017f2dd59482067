//! Erasure of the texts about a person, in rows of the outbox.
//!
//! An application decides which aggregates and which audit entries are about the person, and masks its own tables. Event types
//! declare which payload fields remain ([`EventSpec::visible`](crate::EventSpec::visible),
//! [`EventSpec::kept`](crate::EventSpec::kept)).
//!
//! **Invariant:** an event is masked only after it is settled, so that no consumer, operator or receiver of a webhook misses a
//! text that it still needs. Every unit of work contains its audit entry; a repeated call changes nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_events::{AggregateId, AggregateRef, EventId, Json, TenantId};

use super::{Action, ActionUnit, MAX_NAMED, OperationError, Operator, changed_by_earlier_attempt};
use crate::archive::{KeptBecause, settled};
use crate::outbox::Outbox;
use crate::ports::{
    AuditEntry, AuditFilter, DeadLetter, Erasure, MaskedTexts, Numbered, OutboxRow, OutboxView, StoreError,
    WebhookDelivery,
};
use crate::privacy::{MASK, erased_json};
use crate::storable_text::hash;
use crate::transaction::with_tx;

/// Aggregates whose events are read at once.
pub(super) const AGGREGATES: usize = 50;
/// Maximum number of events or audit entries that are masked in one unit of work.
pub(super) const MAX_ERASED: usize = 50;
/// Audit entries per page.
const ENTRIES: u32 = 500;

/// What an erasure did about events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErasedEvents {
    /// Number of changed rows: events, their history, consume-log records, dead letters, webhook deliveries and attempts.
    pub rows: u64,
    /// Number of events that were not masked because they are not settled, by the reason.
    pub left: BTreeMap<KeptBecause, u64>,
    /// Number of files of the archive that were replaced by files with masked texts.
    pub files: u64,
    /// Number of events in the archive that were not masked, because their files cannot be read or written.
    pub archived: u64,
    /// Number of files that may contain texts and were not masked: they cannot be read or written, or a process writes or removes
    /// them now, or did when it ended.
    pub files_left: u64,
}

impl ErasedEvents {
    /// Adds what another call did.
    pub fn add(&mut self, other: ErasedEvents) {
        self.rows += other.rows;
        self.files += other.files;
        self.archived += other.archived;
        self.files_left += other.files_left;
        for (reason, events) in other.left {
            *self.left.entry(reason).or_default() += events;
        }
    }
}

/// Masks the texts of the settled events of these aggregates in the outbox. `action` names the person by id and has the reason.
/// [`erase_archived_events`](super::erase_archived_events) masks those in the archive, after this.
///
/// # Errors
/// [`OperationError::ForAllTenants`]: a person is not of one tenant.
pub async fn erase_events(
    outbox: &Outbox,
    operator: &Operator,
    action: &Action,
    aggregates: &[AggregateRef],
) -> Result<ErasedEvents, OperationError> {
    for_all_tenants(operator)?;
    let mut erased = ErasedEvents::default();
    for aggregates in aggregates.chunks(AGGREGATES) {
        let rows = outbox.view().await?.outbox_view().outbox_about(aggregates).await?;
        erased.add(erase_rows(outbox, operator, action, rows).await?);
    }
    Ok(erased)
}

/// Masks the texts of the settled ones of these events.
pub(super) async fn erase_rows(
    outbox: &Outbox,
    operator: &Operator,
    action: &Action,
    rows: Vec<OutboxRow>,
) -> Result<ErasedEvents, OperationError> {
    let mut view = outbox.view().await?;
    let page = settled(outbox, view.outbox_view(), rows).await?;
    let mut erased = ErasedEvents { left: page.kept, ..ErasedEvents::default() };
    let rows: Vec<OutboxRow> = page.archivable.into_iter().map(|event| event.row).collect();
    let unerased = unerased(outbox, view.outbox_view(), rows).await?;
    // The units of work need its connection.
    drop(view);
    let events: Vec<_> = unerased.into_iter().map(|row| (row.aggregate.tenant, row.event_id)).collect();
    let first = events.first().map(|(_, event)| event);
    let action = with_first(action, first);
    for unit in action.units(operator, events, MAX_ERASED, outbox.now()) {
        erased.rows += erase_unit(outbox, unit).await?;
    }
    Ok(erased)
}

/// The action on events of which this is the first. Entries of different units of work differ, so that a repeated attempt finds
/// its own.
pub(super) fn with_first(action: &Action, first: Option<&EventId>) -> Action {
    let mut action = action.clone();
    action.selection.extend(first.map(|event| ("firstEventId".to_owned(), event.as_str().into())));
    action
}

/// Masks the reasons of the audit entries that `is_about_person` selects by the entry, its selection, and the aggregates of the
/// events that the selection names. Returns their number. The reasons of erasures of the same person stay.
///
/// Reads the whole audit log, in pages.
///
/// # Errors
/// [`OperationError::ForAllTenants`]: a person is not of one tenant.
pub async fn erase_audit_reasons(
    outbox: &Outbox,
    operator: &Operator,
    action: &Action,
    is_about_person: impl Fn(&AuditEntry, &Json, &[AggregateRef]) -> bool + Send,
) -> Result<u64, OperationError> {
    for_all_tenants(operator)?;
    let mut changed = 0;
    let mut before = None;
    loop {
        let mut view = outbox.view().await?;
        let view = view.outbox_view();
        let page = view.audit_page(&AuditFilter::default(), before, ENTRIES).await?;
        before = page.last().filter(|_| page.len() == ENTRIES as usize).map(|entry| entry.id);
        let read = page.into_iter().filter(|entry| has_text(entry.effect.reason.as_deref()));
        let read = read.filter_map(|entry| Some((Json::parse(&entry.effect.selection).ok()?, entry)));
        let entries: Vec<(Json, Numbered<AuditEntry>)> =
            read.filter(|(selection, entry)| !is_of(action, &entry.effect, selection)).collect();
        let named: BTreeSet<EventId> =
            entries.iter().flat_map(|(selection, _)| named_events(selection)).collect();
        let named: Vec<EventId> = named.into_iter().collect();
        let mut aggregates: BTreeMap<EventId, AggregateRef> = BTreeMap::new();
        for events in named.chunks(MAX_NAMED) {
            let rows = view.outbox_by_event(events).await?.into_iter();
            aggregates.extend(rows.map(|row| (row.event_id, row.aggregate)));
            let archived = view.archived_by_event(events).await?.into_iter();
            aggregates.extend(archived.map(|event| (event.event_id, event.aggregate)));
        }
        let about = entries.iter().filter(|(selection, entry)| {
            let events = named_events(selection).into_iter();
            let mut about: Vec<AggregateRef> =
                events.filter_map(|event| aggregates.get(&event).cloned()).collect();
            about.extend(named_aggregates(outbox, &entry.effect, selection));
            is_about_person(&entry.effect, selection, &about)
        });
        let about: Vec<(TenantId, i64)> = about.map(|(_, entry)| (entry.effect.tenant, entry.id)).collect();
        let mut action = action.clone();
        action
            .selection
            .extend(about.first().map(|(_, entry)| ("firstEntry".to_owned(), Json::from(*entry))));
        for unit in action.units(operator, about, MAX_ERASED, outbox.now()) {
            changed += erase_entries(outbox, unit).await?;
        }
        if before.is_none() {
            return Ok(changed);
        }
    }
}

/// Masks the reasons of entries in one unit of work. Returns their number.
async fn erase_entries(outbox: &Outbox, unit: ActionUnit<i64>) -> Result<u64, StoreError> {
    with_tx(&outbox.tx, Arc::new(unit), |unit, input, attempt| {
        Box::pin(async move {
            let ActionUnit { rows, entry } = &**input;
            if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                return Ok(changed);
            }
            let changed = unit.outbox().erase_audit_reasons(rows).await?;
            if changed > 0 {
                unit.outbox().audit(&AuditEntry { changed, ..entry.clone() }).await?;
            }
            Ok(changed)
        })
    })
    .await
}

/// The selection of an action, and the filter in it.
fn parts(selection: &Json) -> impl Iterator<Item = &Json> {
    [Some(selection), selection.get("filter")].into_iter().flatten()
}

/// The events that the selection of an action names, by id or by the key of a dead letter.
fn named_events(selection: &Json) -> Vec<EventId> {
    let fields = ["eventId", "eventIds", "key", "keys"];
    let mut named = Vec::new();
    for value in parts(selection).flat_map(|part| fields.into_iter().filter_map(|field| part.get(field))) {
        match value {
            Json::Array(ids) => named.extend(ids.iter().filter_map(Json::as_str)),
            id @ (Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null | Json::Object(_)) => {
                named.extend(id.as_str());
            }
        }
    }
    named.into_iter().filter_map(|id| id.parse().ok()).collect()
}

/// The aggregates that the selection of an action names: without a type, those of every registered type with this id.
fn named_aggregates(outbox: &Outbox, entry: &AuditEntry, selection: &Json) -> Vec<AggregateRef> {
    parts(selection).flat_map(|part| named_aggregates_in(outbox, entry, part)).collect()
}

fn named_aggregates_in(outbox: &Outbox, entry: &AuditEntry, selection: &Json) -> Vec<AggregateRef> {
    let Some(id) = selection.get("aggregateId") else { return Vec::new() };
    let of_text = || AggregateId::try_from(id.as_str()?.to_owned()).ok();
    let Some(id) = id.as_i64().map(AggregateId::from).or_else(of_text) else { return Vec::new() };
    let kinds: BTreeSet<&str> = match selection.get("aggregateType").and_then(Json::as_str) {
        Some(kind) => [kind].into(),
        None => outbox.registry.aggregate_types().collect(),
    };
    let tenant = selection.get("tenantId").and_then(Json::as_i64);
    let tenant = tenant.and_then(|tenant| TenantId::try_from(tenant).ok()).unwrap_or(entry.tenant);
    let named = kinds.into_iter().map(|kind| AggregateRef { tenant, kind: kind.to_owned(), id: id.clone() });
    named.collect()
}

/// Whether an entry was written by this action, for the same selection.
fn is_of(action: &Action, entry: &AuditEntry, selection: &Json) -> bool {
    entry.action == action.name
        && action.selection.iter().all(|(name, value)| selection.get(name) == Some(value))
}

fn has_text(text: Option<&str>) -> bool {
    text.is_some_and(|text| text != MASK)
}

pub(super) fn for_all_tenants(operator: &Operator) -> Result<(), OperationError> {
    if operator.sees_all_tenants { Ok(()) } else { Err(OperationError::ForAllTenants) }
}

/// Those of these events of which texts are left to mask: a repeated call does not write, and records nothing.
pub(super) async fn unerased(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
    rows: Vec<OutboxRow>,
) -> Result<Vec<OutboxRow>, StoreError> {
    let events: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
    let mut left: BTreeSet<EventId> = BTreeSet::new();
    let history = view.history_of(&events).await?.into_iter();
    left.extend(history.filter(|it| has_text(it.detail.as_deref())).map(|it| it.event_id));
    for consumed in view.consumed_of(&events).await? {
        let (error, result) = (&consumed.record.error_message, &consumed.consume_result);
        if has_text(error.as_deref()) || has_text(result.as_deref()) {
            left.insert(consumed.event_id);
        }
    }
    let about = About::read(view, &events).await?;
    for delivery in about.deliveries.values().flatten() {
        let attempts = view.webhook_attempts(delivery.endpoint_key(), delivery.id).await?;
        if attempts.iter().any(|it| has_text(it.error.as_deref()) || has_text(it.response.as_deref())) {
            left.insert(delivery.event_id.clone());
        }
    }
    let is_left = |row: &OutboxRow| {
        let texts = about.masked(outbox, row);
        let is_dead_letter_left = |it: &DeadLetter| {
            let body = texts.dead_letters.iter().find(|(queue, _)| *queue == it.queue).map(|(_, body)| body);
            body != Some(&it.body) || it.reason != MASK || has_text(it.note.as_deref())
        };
        let is_delivery_left = |it: &WebhookDelivery| {
            let body = texts.deliveries.iter().find(|(id, _)| *id == it.id).map(|(_, body)| body);
            body != Some(&it.body) || has_text(it.last_error.as_deref())
        };
        texts.payload != row.payload
            || has_text(row.last_error.as_deref())
            || about.dead_letters_of(row).any(is_dead_letter_left)
            || about.deliveries_of(row).any(is_delivery_left)
    };
    Ok(rows.into_iter().filter(|row| left.contains(&row.event_id) || is_left(row)).collect())
}

/// Dead letters and webhook deliveries of events.
pub(super) struct About {
    dead_letters: BTreeMap<String, Vec<DeadLetter>>,
    deliveries: BTreeMap<EventId, Vec<WebhookDelivery>>,
}

impl About {
    pub(super) async fn read(view: &mut dyn OutboxView, events: &[EventId]) -> Result<About, StoreError> {
        let keys: Vec<String> = events.iter().map(EventId::to_string).collect();
        let mut about = About { dead_letters: BTreeMap::new(), deliveries: BTreeMap::new() };
        for dead_letter in view.dead_letters_of(&keys).await? {
            about.dead_letters.entry(dead_letter.key.clone()).or_default().push(dead_letter);
        }
        for delivery in view.webhook_deliveries_of(events).await? {
            about.deliveries.entry(delivery.event_id.clone()).or_default().push(delivery);
        }
        Ok(about)
    }

    fn dead_letters_of(&self, row: &OutboxRow) -> impl Iterator<Item = &DeadLetter> {
        self.dead_letters.get(row.event_id.as_str()).into_iter().flatten()
    }

    fn deliveries_of(&self, row: &OutboxRow) -> impl Iterator<Item = &WebhookDelivery> {
        self.deliveries.get(&row.event_id).into_iter().flatten()
    }

    pub(super) fn masked(&self, outbox: &Outbox, row: &OutboxRow) -> MaskedTexts {
        let erased = |json: &str| erased_json(&outbox.registry, Some(&row.event_type), json);
        let payload = erased(&row.payload);
        MaskedTexts {
            event_id: row.event_id.clone(),
            payload_hash: hash(&payload),
            payload,
            dead_letters: self.dead_letters_of(row).map(|it| (it.queue.clone(), erased(&it.body))).collect(),
            deliveries: self.deliveries_of(row).map(|it| (it.id, erased(&it.body))).collect(),
        }
    }
}

/// When and why the texts are masked that the entry is about.
pub(super) fn erasure_of(entry: &AuditEntry) -> Erasure {
    Erasure { at: entry.at, reason: entry.reason.clone().unwrap_or_default() }
}

/// Masks events in one unit of work, which checks again that they are settled. Returns the number of changed rows.
async fn erase_unit(outbox: &Outbox, unit: ActionUnit<EventId>) -> Result<u64, StoreError> {
    with_tx(&outbox.tx, Arc::new((outbox.clone(), unit)), |unit, input, attempt| {
        Box::pin(async move {
            let (outbox, ActionUnit { rows: events, entry }) = &**input;
            if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                return Ok(changed);
            }
            let view = unit.outbox_view();
            let rows = view.outbox_by_event(events).await?;
            let page = settled(outbox, view, rows).await?;
            let rows: Vec<OutboxRow> = page.archivable.into_iter().map(|event| event.row).collect();
            let events: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
            let about = About::read(view, &events).await?;
            let texts: Vec<MaskedTexts> = rows.iter().map(|row| about.masked(outbox, row)).collect();
            let changed = unit.outbox().erase_events(&texts, &erasure_of(entry)).await?;
            if changed > 0 {
                unit.outbox().audit(&AuditEntry { changed, ..entry.clone() }).await?;
            }
            Ok(changed)
        })
    })
    .await
}
