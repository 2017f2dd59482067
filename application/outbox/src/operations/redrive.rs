//! Redrive: publishes events again, either because they failed permanently or because consumers should process them
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, Json, OutboxStatus, TenantId};
use tracing::warn;

use super::archive::{refused_if_aggregate_is_archived, refused_if_archived};
use super::id_window::{bounded_after, next_after};
use super::known_names::FilterNames;
use super::{
    Action, Named, OperationError, Operator, Reason, changed_by_earlier_attempt, common_tenant, count,
    filter_fields, present_fields,
};
use crate::history::{self, RedrivenBy};
use crate::outbox::Outbox;
use crate::ports::{AuditEntry, OutboxFilter, OutboxRow, Redrive, StoreError};
use crate::transaction::with_tx;

/// Maximum number of events per call.
pub const MAX_REDRIVEN: u32 = 10_000;
/// Maximum number of events per unit of work.
const UNIT: usize = 500;

/// Number of events per second that become due, so that a redrive does not overload the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedriveRate(NonZeroU16);

impl RedriveRate {
    /// Maximum rate.
    pub const MAX: u16 = 10_000;

    /// A rate between 1 and [`RedriveRate::MAX`]; `None` for other values.
    pub fn new(per_second: u16) -> Option<RedriveRate> {
        NonZeroU16::new(per_second).filter(|pace| pace.get() <= Self::MAX).map(RedriveRate)
    }

    /// Returns the time at which the event at this position of the list of redriven events becomes due.
    fn due(self, now: DateTime<Utc>, place: usize) -> DateTime<Utc> {
        let micros =
            i64::try_from(place).unwrap_or(i64::MAX).saturating_mul(1_000_000) / i64::from(self.0.get());
        now + TimeDelta::microseconds(micros)
    }
}

impl Default for RedriveRate {
    /// The default rate: 100 events per second.
    fn default() -> Self {
        RedriveRate(NonZeroU16::MIN.saturating_add(99))
    }
}

/// Filter for the rows to redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveFilter(OutboxFilter);

/// Reason why a filter cannot be used for a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRedriveFilter {
    /// The filter is empty and would match the whole outbox.
    #[error("must have at least one field")]
    Empty,
    /// The filter selects `NEW` or `RETRY` rows, which are published without a redrive.
    #[error("must be one of FAILED SENT")]
    Pending,
}

impl RedriveFilter {
    /// Requires a filter with at least one field. A filter without a status matches `FAILED` rows.
    pub fn new(filter: OutboxFilter) -> Result<RedriveFilter, InvalidRedriveFilter> {
        if filter == OutboxFilter::default() {
            return Err(InvalidRedriveFilter::Empty);
        }
        match filter.status {
            Some(OutboxStatus::New | OutboxStatus::Retry) => Err(InvalidRedriveFilter::Pending),
            Some(OutboxStatus::Sent | OutboxStatus::Failed) => Ok(RedriveFilter(filter)),
            None => Ok(RedriveFilter(OutboxFilter { status: Some(OutboxStatus::Failed), ..filter })),
        }
    }
}

/// Selects outbox rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedriveSelection {
    /// The events with these ids.
    Events(Named<EventId>),
    /// Rows that match a filter, oldest first.
    Filter {
        /// The filter.
        filter: RedriveFilter,
        /// Only rows after this id, at which an earlier call ended.
        after: Option<i64>,
    },
}

/// Command: the events to redrive, the rate, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveEvents {
    /// Selected rows.
    pub rows: RedriveSelection,
    /// Whether to report only what would happen.
    pub dry_run: bool,
    /// Rate at which the rows become due.
    pub pace: RedriveRate,
    /// Reason, if the operator gave one.
    pub reason: Option<Reason>,
}

/// Result of a redrive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redriven {
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Number of selected rows, up to the limit of one call.
    pub matched: u64,
    /// Number of redriven rows; 0 in a dry run.
    pub redriven: u64,
    /// Number of selected rows that are not redriven: they are published without a redrive (`NEW`, `RETRY`), or their
    /// status has changed since they were selected.
    pub skipped: u64,
    /// Requested events that do not exist or that belong to another tenant.
    pub not_found: Vec<EventId>,
    /// Whether rows remain: the filter matches further ones, the call ended before rows that can match, or it was
    /// interrupted.
    pub more: bool,
    /// Cursor for the next call, if rows remain.
    pub next: Option<i64>,
    /// Time at which the first row becomes due; in a dry run, the time at which it would become due.
    pub first_due: Option<DateTime<Utc>>,
    /// Time at which the last row becomes due; in a dry run, the time at which it would become due.
    pub last_due: Option<DateTime<Utc>>,
}

/// Makes events due again, ordered by id and spread at the given rate. `FAILED` events are published again; `SENT`
/// events are delivered to their consumers again; a consumer that has applied an event ignores it. Publish
/// attempts are counted from 0. Pending events are not changed.
///
/// If no index supports a filter (`SENT` events of any aggregate), at most 100,000 ids are searched per call: few rows or none
/// can match although rows remain.
///
/// # Errors
/// - [`OperationError::Archived`]: a named event is in the archive. Nothing is changed.
/// - [`OperationError::ArchivedAggregate`]: the filter is for `SENT` events of one aggregate, and matches an archived event.
///   Nothing is changed. Other filters do not search the archive.
pub async fn redrive_events(
    outbox: &Outbox,
    operator: &Operator,
    command: RedriveEvents,
) -> Result<Redriven, OperationError> {
    let selected = select(outbox, operator, &command.rows).await?;
    let tenant =
        common_tenant(selected.rows.iter().map(|row| row.aggregate.tenant)).or(command.rows.tenant());
    let mut redriven = Redriven {
        dry_run: command.dry_run,
        matched: selected.rows.len() as u64,
        not_found: selected.missing,
        more: selected.next.is_some(),
        next: selected.next,
        ..Redriven::default()
    };
    let now = outbox.now();
    let due: Vec<(TenantId, Redrive)> = selected
        .rows
        .into_iter()
        .filter(|row| !row.status.is_pending())
        .enumerate()
        .map(|(place, row)| {
            let due = command.pace.due(now, place);
            (row.aggregate.tenant, Redrive { event_id: row.event_id, due })
        })
        .collect();
    redriven.skipped = redriven.matched - due.len() as u64;
    redriven.first_due = due.first().map(|(_, first)| first.due);
    redriven.last_due = due.last().map(|(_, last)| last.due);
    let action =
        Action { name: "outbox.redrive", selection: selection(&command), reason: command.reason.clone() };
    if command.dry_run {
        action.dry_run().record(&outbox.tx, operator, tenant, redriven.matched).await?;
        return Ok(redriven);
    }
    if due.is_empty() {
        action.record(&outbox.tx, operator, tenant, redriven.matched).await?;
        return Ok(redriven);
    }
    let units = units(due, |part, tenant| AuditEntry { tenant, ..action.entry(operator, part, now) });
    let task = outbox.clone();
    let required = selected.required;
    let after = command.rows.after();
    // The redrive runs in a separate task, so that a cancelled caller cannot interrupt it between its units of work.
    let ended =
        outbox.spawn(async move { redrive_units(&task, units, required, after, redriven).await }).await;
    match ended {
        Ok(Some(ended)) => ended,
        Ok(None) => Err(StoreError::Unavailable("the process is shutting down".into()).into()),
        Err(panic) => Err(StoreError::Backend(Box::new(panic)).into()),
    }
}

/// Rows of one tenant that are redriven in one unit of work, with the audit entry.
struct Unit {
    due: Vec<Redrive>,
    entry: AuditEntry,
}

fn units(due: Vec<(TenantId, Redrive)>, entry: impl Fn((usize, usize), TenantId) -> AuditEntry) -> Vec<Unit> {
    let mut by_tenant: BTreeMap<TenantId, Vec<Redrive>> = BTreeMap::new();
    for (tenant, redrive) in due {
        by_tenant.entry(tenant).or_default().push(redrive);
    }
    let parts: Vec<(TenantId, Vec<Redrive>)> = by_tenant
        .into_iter()
        .flat_map(|(tenant, due)| due.chunks(UNIT).map(|due| (tenant, due.to_vec())).collect::<Vec<_>>())
        .collect();
    let of = parts.len();
    let with_entry = |(part, (tenant, due)): (usize, (TenantId, Vec<Redrive>))| {
        let entry = AuditEntry { matched: count(due.len()), ..entry((part + 1, of), tenant) };
        Unit { due, entry }
    };
    parts.into_iter().enumerate().map(with_entry).collect()
}

async fn redrive_units(
    outbox: &Outbox,
    units: Vec<Unit>,
    required: RequiredStatus,
    after: Option<i64>,
    mut redriven: Redriven,
) -> Result<Redriven, OperationError> {
    for Unit { due, entry } in units {
        let requested = due.len() as u64;
        match redrive_unit(outbox, due, required, entry).await {
            Ok(moved) => {
                redriven.redriven += moved;
                redriven.skipped += requested - moved;
            }
            Err(error) if redriven.redriven > 0 => {
                warn!(code = "outbox.redrive-interrupted", %error, redriven = redriven.redriven, "redrive interrupted; repeat it to continue");
                // The next call starts at the cursor of this call. The rows that this call redrove are now pending, so
                // the next call does not select them.
                redriven.more = true;
                redriven.next = after;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(redriven)
}

/// Runs one unit of work: redrives the rows that still have the required status. Returns the number of redriven rows.
async fn redrive_unit(
    outbox: &Outbox,
    due: Vec<Redrive>,
    required: RequiredStatus,
    entry: AuditEntry,
) -> Result<u64, OperationError> {
    let ids: Vec<EventId> = due.iter().map(|it| it.event_id.clone()).collect();
    with_tx(&outbox.tx, (due, ids, entry), move |unit, (due, ids, entry), attempt| {
        Box::pin(async move {
            if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                return Ok(changed);
            }
            let rows = unit.outbox().outbox_by_event(ids).await?;
            let unchanged: BTreeSet<&EventId> =
                rows.iter().filter(|row| required.is(row.status)).map(|row| &row.event_id).collect();
            let due: Vec<Redrive> =
                due.iter().filter(|it| unchanged.contains(&it.event_id)).cloned().collect();
            let by = RedrivenBy { actor: &entry.actor, reason: entry.reason.as_deref() };
            let changed = history::redrive(unit.outbox(), &due, by, entry.at).await?;
            unit.outbox().audit(&AuditEntry { changed, ..entry.clone() }).await?;
            Ok(changed)
        })
    })
    .await
}

/// Status that a row must have to be redriven.
#[derive(Debug, Clone, Copy)]
enum RequiredStatus {
    /// For rows selected by id: any settled status.
    Settled,
    /// For rows selected by filter: the status in the filter.
    Exactly(OutboxStatus),
}

impl RequiredStatus {
    fn is(self, status: OutboxStatus) -> bool {
        match self {
            RequiredStatus::Settled => !status.is_pending(),
            RequiredStatus::Exactly(required) => status == required,
        }
    }
}

struct Selected {
    /// Selected rows, ordered by id.
    rows: Vec<OutboxRow>,
    required: RequiredStatus,
    missing: Vec<EventId>,
    /// Cursor for the next call, if rows remain.
    next: Option<i64>,
}

async fn select(
    outbox: &Outbox,
    operator: &Operator,
    rows: &RedriveSelection,
) -> Result<Selected, OperationError> {
    match rows {
        RedriveSelection::Events(events) => {
            let tenant = operator.visible(None)?;
            let mut rows = outbox.view().await?.outbox_view().outbox_by_event(events.as_slice()).await?;
            rows.retain(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant));
            rows.sort_by_key(|row| row.id);
            let found: BTreeSet<&EventId> = rows.iter().map(|row| &row.event_id).collect();
            let missing: Vec<EventId> =
                events.as_slice().iter().filter(|id| !found.contains(id)).cloned().collect();
            refused_if_archived(outbox, operator, &missing).await?;
            Ok(Selected { rows, required: RequiredStatus::Settled, missing, next: None })
        }
        RedriveSelection::Filter { filter: RedriveFilter(filter), after } => {
            let filter = OutboxFilter { tenant: operator.visible(filter.tenant)?, ..filter.clone() };
            let required = filter.status.map_or(RequiredStatus::Settled, RequiredStatus::Exactly);
            let mut view = outbox.view().await?;
            let view = view.outbox_view();
            refused_if_aggregate_is_archived(view, &filter).await?;
            let filter = bounded_after(view, filter, *after).await?;
            let mut rows = view.outbox_after(&filter, *after, MAX_REDRIVEN + 1).await?;
            let next = if rows.len() > MAX_REDRIVEN as usize {
                rows.truncate(MAX_REDRIVEN as usize);
                rows.last().map(|row| row.id)
            } else {
                next_after(view, &filter).await?
            };
            if after.is_none() && rows.is_empty() && next.is_none() {
                FilterNames::of_events(&filter).require_known(outbox)?;
            }
            Ok(Selected { rows, required, missing: Vec::new(), next })
        }
    }
}

impl RedriveSelection {
    /// Tenant, if the filter names one.
    fn tenant(&self) -> Option<TenantId> {
        match self {
            RedriveSelection::Events(_) => None,
            RedriveSelection::Filter { filter: RedriveFilter(filter), .. } => filter.tenant,
        }
    }

    /// Cursor at which the selection starts.
    fn after(&self) -> Option<i64> {
        match self {
            RedriveSelection::Events(_) => None,
            RedriveSelection::Filter { after, .. } => *after,
        }
    }
}

/// The selected rows and the rate as JSON fields, for the audit log.
fn selection(command: &RedriveEvents) -> Vec<(String, Json)> {
    let mut selection = match &command.rows {
        RedriveSelection::Events(events) => {
            present_fields([("eventIds", Some(events.as_slice().iter().map(EventId::as_str).collect()))])
        }
        RedriveSelection::Filter { filter: RedriveFilter(filter), after } => present_fields([
            ("filter", Some(Json::Object(filter_fields(filter)))),
            ("cursor", after.map(Json::from)),
        ]),
    };
    selection.push(("perSecond".to_owned(), command.pace.0.get().into()));
    selection
}
