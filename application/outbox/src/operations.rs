//! Operations for operators: reading, redriving, releasing, replaying and discarding.
//!
//! **Invariant:** each call that changes rows or returns a result is recorded in the audit log, with operator, action,
//! selection, number of rows and reason. A change is recorded in the unit of work that made it. A call without changes
//! (read, dry run, no matching rows) is recorded before its result is returned. An audit entry belongs to the tenant of
//! the affected rows, not to the tenant of the caller; only operators of that tenant and `platform` see it. A read of
//! all tenants is recorded in the caller's tenant. Reads of alerts, statistics and queue depths, which programs poll and which
//! contain no rows, are not recorded. A read is not refused because the disk is full: the entry that cannot be written is logged
//! ([`Transactor::unrecorded_reads`]).
//!
//! An action on many rows runs in units of work of limited size, each for one tenant and with one audit entry. If a
//! later unit of work fails after an earlier one was committed, the result reports what was done and sets `more`;
//! repeating the call continues from there.

mod alerts;
mod archive;
mod dead_letter_selection;
mod discard;
mod erase;
mod erase_archived;
mod find_event;
pub(crate) mod id_window;
mod known_names;
mod operator;
pub(crate) mod paged_filters;
mod read;
mod redrive;
mod release;
mod replay;
mod restore;
mod running;
mod stat_history;
mod stats;

pub use crate::broker_outage::Outage;
pub use crate::running_settings::RunningSetting;
pub use alerts::{AlertState, acknowledge_alert, alerts, alerts_are_evaluated};
pub use archive::{ArchiveEvents, archive_events};
pub use dead_letter_selection::{DeadLetterSelection, MAX_DEAD_LETTERS_PER_CALL, Refused};
pub use discard::{DiscardDeadLetters, Discarded, discard_dead_letters};
pub use erase::{ErasedEvents, erase_audit_reasons, erase_events};
pub use erase_archived::erase_archived_events;
pub use find_event::{ListedEvent, find_event};
pub use id_window::{PagedFilter, page_of};
pub use operator::{OperationError, Operator};
pub use read::{
    ParkedDeadLetter, archived_events, audit_log, blocked, consumptions, dead_letters, oldest_events, outbox,
    queues,
};
pub use redrive::{
    InvalidRedriveFilter, MAX_REDRIVEN, RedriveEvents, RedriveFilter, RedriveRate, RedriveSelection,
    Redriven, redrive_events,
};
pub use release::release_aggregate;
pub use replay::{
    ReplayDeadLetters, ReplayResult, ReplayState, Replayed, SentDeadLetter, replay_dead_letters,
    replay_results,
};
pub use restore::{MAX_RESTORED, RestoreEvents, RestoreSelection, Restored, restore_events};
pub use running::{RunningProcess, running_settings};
pub use stat_history::{MAX_VALUES, StatSeries, StatValue, stat_history};
pub use stats::{BrokerState, ConsumerStats, MAX_BLOCKED_COUNTED, MAX_IDS_COUNTED, Stats, stats};

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use handover_events::{Json, TenantId, TextError};
use tracing::warn;

use crate::ports::{
    AuditEntry, AuditFilter, AuditQueries, OutboxFilter, OutboxUnit, StoreError, UnitOfWork, View,
};
use crate::transaction::{Attempt, Transactor, with_tx};

/// Maximum number of ids or keys per call. With ids and a reason of maximum length, a call fits into a body of 64 KiB.
pub const MAX_NAMED: usize = 900;

/// Number of the newest audit entries that are searched for the entry of an attempt with unknown outcome. The entry is
/// among them unless other calls, including reads, have added this many entries since the attempt started.
const MAX_AUDIT_LOOKBACK: u32 = 1_000;

/// Reason for an action, entered by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Maximum number of characters of a reason.
    pub const MAX_CHARS: usize = 500;

    /// Validates the text of a reason: not empty, not too long, and without control characters.
    pub fn new(text: String) -> Result<Reason, TextError> {
        TextError::check(&text, Self::MAX_CHARS)?;
        Ok(Reason(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Ids or keys listed in a call: at least one, at most [`MAX_NAMED`], without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T>(Vec<T>);

impl<T: Ord + Clone> Named<T> {
    /// Removes duplicates and keeps the order. `None` if the list is empty or has more than [`MAX_NAMED`] items.
    pub fn new(names: Vec<T>) -> Option<Named<T>> {
        if !(1..=MAX_NAMED).contains(&names.len()) {
            return None;
        }
        let mut seen = std::collections::BTreeSet::new();
        Some(Named(names.into_iter().filter(|name| seen.insert(name.clone())).collect()))
    }

    /// The ids or keys.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

/// An action as recorded in the audit log.
#[derive(Debug, Clone)]
pub struct Action {
    /// Name, for example `outbox.redrive`.
    pub name: &'static str,
    /// Requested ids or filter: the fields of a JSON object.
    pub selection: Vec<(String, Json)>,
    /// Reason, if the operator gave one.
    pub reason: Option<Reason>,
}

impl Action {
    /// A read operation.
    pub fn read<const N: usize>(name: &'static str, selection: [(&str, Option<Json>); N]) -> Action {
        Action { name, selection: present_fields(selection), reason: None }
    }

    /// A read operation on data that can contain personal data. The audit entry records whether the operator saw the
    /// data unmasked.
    pub fn read_personal_data<const N: usize>(
        name: &'static str,
        operator: &Operator,
        selection: [(&str, Option<Json>); N],
    ) -> Action {
        let mut action = Action::read(name, selection);
        if operator.sees_personal_data {
            action.selection.push(("unmasked".to_owned(), true.into()));
        }
        action
    }

    fn dry_run(mut self) -> Action {
        self.selection.push(("dryRun".to_owned(), true.into()));
        self
    }

    /// Records a call without changes in the audit log of this tenant (`None`: the operator's tenant), with the number
    /// of rows returned or selected. MUST be called before the result is returned. If the database refuses every write because
    /// of a fault of the system, such as a full disk, the call succeeds without its entry, with a warning.
    pub async fn record<U, V>(
        self,
        tx: &Transactor<U, V>,
        operator: &Operator,
        tenant: Option<TenantId>,
        matched: u64,
    ) -> Result<(), StoreError>
    where
        U: UnitOfWork + ?Sized + 'static,
        V: View + ?Sized + 'static,
    {
        let tenant = tenant.unwrap_or(operator.tenant);
        let entry = self.entry(operator, (1, 1), tx.now());
        let entry = AuditEntry { tenant, matched, ..entry };
        let (action, actor) = (entry.action.clone(), entry.actor.clone());
        let recorded = with_tx(tx, entry, |unit, entry, attempt| {
            Box::pin(async move {
                if changed_by_earlier_attempt(unit.outbox(), attempt, entry).await?.is_none() {
                    unit.outbox().audit(entry).await?;
                }
                Ok::<_, StoreError>(())
            })
        });
        match recorded.await {
            Err(error) if error.system_fault().is_some() => {
                warn!(code = "audit.not-recorded", %error, action, actor, "audit: a read cannot be recorded, because the database refuses writes");
                tx.add_unrecorded_read(format!("{action}: {error}"));
                Ok(())
            }
            recorded => recorded,
        }
    }

    /// Divides rows of several tenants into units of work of at most `size` rows of one tenant, each with an entry in
    /// the audit log of its tenant. The rows of a tenant keep their order.
    fn units<T>(
        &self,
        operator: &Operator,
        rows: impl IntoIterator<Item = (TenantId, T)>,
        size: usize,
        at: DateTime<Utc>,
    ) -> Vec<ActionUnit<T>> {
        let mut by_tenant: BTreeMap<TenantId, Vec<T>> = BTreeMap::new();
        for (tenant, row) in rows {
            by_tenant.entry(tenant).or_default().push(row);
        }
        let mut units = Vec::new();
        for (tenant, rows) in by_tenant {
            let parts = rows.len().div_ceil(size);
            let mut rows = rows.into_iter();
            for part in 1..=parts {
                let rows: Vec<T> = rows.by_ref().take(size).collect();
                let entry = self.entry(operator, (part, parts), at);
                let entry = AuditEntry { tenant, matched: count(rows.len()), ..entry };
                units.push(ActionUnit { rows, entry });
            }
        }
        units
    }

    /// Audit entry of one unit of work, without row counts. MUST be built before the first attempt, so that later
    /// attempts find it.
    pub fn entry(&self, operator: &Operator, (part, parts): (usize, usize), at: DateTime<Utc>) -> AuditEntry {
        let mut selection = self.selection.clone();
        if parts > 1 {
            selection.push(("part".to_owned(), part.into()));
            selection.push(("parts".to_owned(), parts.into()));
        }
        AuditEntry {
            tenant: operator.tenant,
            actor: operator.name.clone(),
            action: self.name.to_owned(),
            selection: Json::object(selection).to_string(),
            matched: 0,
            changed: 0,
            reason: self.reason.as_ref().map(|reason| reason.0.clone()),
            trace_id: operator.trace.trace_id.clone(),
            at,
        }
    }
}

/// Rows of one tenant to be changed in one unit of work, and its audit entry, in which the number of changed rows is
/// not set yet.
struct ActionUnit<T> {
    rows: Vec<T>,
    entry: AuditEntry,
}

/// Number of rows changed by an earlier attempt at this unit of work. `None` if no earlier attempt was committed, so
/// that no audit entry exists.
pub async fn changed_by_earlier_attempt<U: AuditQueries + ?Sized>(
    unit: &mut U,
    attempt: Attempt,
    entry: &AuditEntry,
) -> Result<Option<u64>, StoreError> {
    if !attempt.may_be_committed() {
        return Ok(None);
    }
    let filter = AuditFilter { tenant: Some(entry.tenant), changes: false, ..AuditFilter::default() };
    let newest = unit.audit_page(&filter, None, MAX_AUDIT_LOOKBACK).await?;
    let ours =
        |it: &AuditEntry| AuditEntry { changed: it.changed, matched: it.matched, ..entry.clone() } == *it;
    Ok(newest.into_iter().map(|it| it.effect).find(ours).map(|it| it.changed))
}

/// Records a call whose change had already been made by an earlier call. If an earlier attempt at this call was
/// committed, the call is already recorded.
pub async fn record_already_done(
    unit: &mut dyn OutboxUnit,
    attempt: Attempt,
    entry: &AuditEntry,
) -> Result<(), StoreError> {
    if changed_by_earlier_attempt(unit, attempt, entry).await?.is_none() {
        unit.audit(&AuditEntry { changed: 0, ..entry.clone() }).await?;
    }
    Ok(())
}

/// The common tenant of all items, if there is one.
fn common_tenant(mut tenants: impl Iterator<Item = TenantId>) -> Option<TenantId> {
    let first = tenants.next()?;
    tenants.all(|tenant| tenant == first).then_some(first)
}

/// Returns a JSON object of the fields that have a value.
pub fn present_fields<const N: usize>(fields: [(&str, Option<Json>); N]) -> Vec<(String, Json)> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the fields of a filter of outbox rows as JSON, for the audit log.
pub(crate) fn filter_fields(filter: &OutboxFilter) -> Vec<(String, Json)> {
    present_fields([
        ("status", filter.status.map(|status| status.as_str().into())),
        ("eventType", filter.event_type.as_deref().map(Json::from)),
        ("aggregateType", filter.aggregate_type.as_deref().map(Json::from)),
        ("aggregateId", filter.aggregate_id.as_ref().map(Json::from)),
        ("tenantId", filter.tenant.map(|tenant| tenant.get().into())),
        ("from", filter.from.map(rfc3339)),
        ("to", filter.to.map(rfc3339)),
    ])
}

/// Time in RFC 3339 format, for the audit log.
pub fn rfc3339(time: DateTime<Utc>) -> Json {
    time.to_rfc3339_opts(SecondsFormat::Micros, true).into()
}

/// Number of rows, for the audit log.
pub fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
