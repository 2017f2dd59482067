//! An operator sends events once more: those that were given up, and those whose consumers should look again.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, OutboxStatus, TenantId};
use serde_json::{Map, Value};
use tracing::warn;

use super::{Action, Named, OperationError, Operator, Reason, asked, count, done_before, events_of, only};
use crate::history::{self, RedrivenBy};
use crate::mutants::{Mutant, planted};
use crate::ports::{AuditEntry, OutboxFilter, OutboxRow, Redrive, StoreError};
use crate::{Outbox, with_tx};

/// The greatest number of events that one call redrives.
pub const MAX_REDRIVEN: u32 = 10_000;
/// How many of them one unit of work moves.
const UNIT: usize = 500;

/// How many events a second fall due, so that a redrive does not storm the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace(NonZeroU16);

impl Pace {
    /// The greatest.
    pub const MAX: u16 = 10_000;

    /// A pace, if it is from 1 to [`Pace::MAX`].
    pub fn new(per_second: u16) -> Option<Pace> {
        NonZeroU16::new(per_second).filter(|pace| pace.get() <= Self::MAX).map(Pace)
    }

    /// When the event at this place is due.
    fn due(self, now: DateTime<Utc>, place: usize) -> DateTime<Utc> {
        let micros =
            i64::try_from(place).unwrap_or(i64::MAX).saturating_mul(1_000_000) / i64::from(self.0.get());
        now + TimeDelta::microseconds(micros)
    }
}

impl Default for Pace {
    /// 100 a second.
    fn default() -> Self {
        Pace(NonZeroU16::MIN.saturating_add(99))
    }
}

/// Which rows of the outbox are redriven, by what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveFilter(OutboxFilter);

/// Why a filter chooses nothing to redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFilter {
    /// It would be the whole outbox.
    #[error("must have at least one field")]
    Empty,
    /// `NEW` and `RETRY` ones are on their way.
    #[error("must be one of FAILED SENT")]
    Pending,
}

impl RedriveFilter {
    /// A filter with at least one field. Where it names no status, `FAILED` is meant.
    pub fn new(filter: OutboxFilter) -> Result<RedriveFilter, BadFilter> {
        if filter == OutboxFilter::default() {
            return Err(BadFilter::Empty);
        }
        match filter.status {
            Some(OutboxStatus::New | OutboxStatus::Retry) => Err(BadFilter::Pending),
            Some(OutboxStatus::Sent | OutboxStatus::Failed) => Ok(RedriveFilter(filter)),
            None => Ok(RedriveFilter(OutboxFilter { status: Some(OutboxStatus::Failed), ..filter })),
        }
    }
}

/// Which rows of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// These events.
    Events(Named<EventId>),
    /// What a filter chooses, the oldest first.
    Filter {
        /// The filter.
        filter: RedriveFilter,
        /// Only rows after this one: where an earlier call ended.
        after: Option<i64>,
    },
}

/// What is redriven, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveEvents {
    /// Which rows.
    pub rows: Rows,
    /// Whether it is only looked what would happen.
    pub dry_run: bool,
    /// How many fall due a second.
    pub pace: Pace,
    /// Why.
    pub reason: Option<Reason>,
}

/// What became of a redrive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redriven {
    /// Whether it was only looked what would happen.
    pub dry_run: bool,
    /// How many rows were chosen, as far as one call goes.
    pub matched: u64,
    /// How many of them are published once more; none in a dry run.
    pub redriven: u64,
    /// How many of them are on their way anyway.
    pub skipped: u64,
    /// Events that were named and are not there, or another tenant's.
    pub not_found: Vec<EventId>,
    /// Whether the filter chooses further ones.
    pub more: bool,
    /// After which row the next call goes on, if there are more.
    pub next: Option<i64>,
    /// When the first one is due; in a dry run, when it would be.
    pub first_due: Option<DateTime<Utc>>,
    /// When the last one is.
    pub last_due: Option<DateTime<Utc>>,
}

/// Makes events due once more, spread by the pace in order of their ids: `FAILED` ones again, `SENT` ones for consumers
/// to look at, which ignore what they have done. Attempts are counted anew. What is on its way is left alone.
pub async fn redrive_events(
    outbox: &Outbox,
    operator: &Operator,
    command: RedriveEvents,
) -> Result<Redriven, OperationError> {
    let chosen = choose(outbox, operator, &command.rows).await?;
    let last = chosen.rows.last().map(|row| row.id);
    let tenant = only(chosen.rows.iter().map(|row| row.aggregate.tenant)).or(command.rows.tenant());
    let mut redriven = Redriven {
        dry_run: command.dry_run,
        matched: chosen.rows.len() as u64,
        not_found: chosen.missing,
        more: chosen.more,
        next: last.filter(|_| chosen.more),
        ..Redriven::default()
    };
    let now = outbox.now();
    let due: Vec<(TenantId, Redrive)> = chosen
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
        action.dry_run().told(outbox, operator, tenant, redriven.matched).await?;
        return Ok(redriven);
    }
    if due.is_empty() {
        action.told(outbox, operator, tenant, redriven.matched).await?;
        return Ok(redriven);
    }
    let units = units(due, |part, tenant| AuditEntry { tenant, ..action.entry(operator, part, now) });
    let (task, wanted, after) = (outbox.clone(), chosen.wanted, command.rows.after());
    // As a task of its own: a caller who goes away does not cut it between its units.
    let ended =
        outbox.tx.tasks.spawn(async move { move_all(&task, units, wanted, after, redriven).await }).await;
    match ended {
        Ok(Some(ended)) => ended,
        Ok(None) => Err(StoreError::Unavailable("the process is ending".into()).into()),
        Err(panic) => Err(StoreError::Backend(Box::new(panic)).into()),
    }
}

/// Rows of one tenant that move in one unit of work, and what the audit log of that tenant says about them.
struct Unit {
    due: Vec<Redrive>,
    entry: AuditEntry,
}

fn units(due: Vec<(TenantId, Redrive)>, entry: impl Fn((usize, usize), TenantId) -> AuditEntry) -> Vec<Unit> {
    let mut of_tenants: BTreeMap<TenantId, Vec<Redrive>> = BTreeMap::new();
    for (tenant, redrive) in due {
        of_tenants.entry(tenant).or_default().push(redrive);
    }
    let parts: Vec<(TenantId, Vec<Redrive>)> = of_tenants
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

async fn move_all(
    outbox: &Outbox,
    units: Vec<Unit>,
    wanted: Wanted,
    after: Option<i64>,
    mut redriven: Redriven,
) -> Result<Redriven, OperationError> {
    for Unit { due, entry } in units {
        let asked = due.len() as u64;
        match move_on(outbox, due, wanted, entry).await {
            Ok(moved) => {
                redriven.redriven += moved;
                redriven.skipped += asked - moved;
            }
            Err(error) if redriven.redriven > 0 => {
                warn!(%error, redriven = redriven.redriven, "a redrive ends before its time");
                // From where this call began: what it moved is on its way, and chosen no more.
                (redriven.more, redriven.next) = (true, after);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(redriven)
}

/// One unit: what still stands as it was chosen is moved. Tells how many were.
async fn move_on(
    outbox: &Outbox,
    due: Vec<Redrive>,
    wanted: Wanted,
    entry: AuditEntry,
) -> Result<u64, OperationError> {
    let ids: Vec<EventId> = due.iter().map(|it| it.event_id.clone()).collect();
    let job = Arc::new((due, ids, entry));
    with_tx(&outbox.tx, move |unit, attempt| {
        let job = Arc::clone(&job);
        Box::pin(async move {
            let (due, ids, entry) = &*job;
            if let Some(changed) = done_before(unit.outbox(), attempt, entry).await?
                && !planted(Mutant::RedriveTwice)
            {
                return Ok(changed);
            }
            let rows = unit.outbox().outbox_by_event(ids).await?;
            let still: BTreeSet<&EventId> =
                rows.iter().filter(|row| wanted.is(row.status)).map(|row| &row.event_id).collect();
            let due: Vec<Redrive> = due.iter().filter(|it| still.contains(&it.event_id)).cloned().collect();
            let by = RedrivenBy { actor: &entry.actor, reason: entry.reason.as_deref() };
            let changed = history::redrive(unit.outbox(), &due, by, entry.at).await?;
            if !planted(Mutant::AuditForgotten) {
                unit.outbox().audit(&AuditEntry { changed, ..entry.clone() }).await?;
            }
            Ok(changed)
        })
    })
    .await
}

/// Where a row has to stand to be redriven.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// It was named: wherever nothing is to happen any more.
    Settled,
    /// As the filter says.
    Just(OutboxStatus),
}

impl Wanted {
    fn is(self, status: OutboxStatus) -> bool {
        match self {
            Wanted::Settled => !status.is_pending(),
            Wanted::Just(wanted) => status == wanted,
        }
    }
}

struct Chosen {
    /// In order of their ids.
    rows: Vec<OutboxRow>,
    wanted: Wanted,
    missing: Vec<EventId>,
    more: bool,
}

async fn choose(outbox: &Outbox, operator: &Operator, rows: &Rows) -> Result<Chosen, OperationError> {
    match rows {
        Rows::Events(events) => {
            let tenant = operator.visible(None)?;
            let mut rows = outbox.view().await?.outbox_view().outbox_by_event(events.as_slice()).await?;
            rows.retain(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant));
            rows.sort_by_key(|row| row.id);
            let there: BTreeSet<&EventId> = rows.iter().map(|row| &row.event_id).collect();
            let missing = events.as_slice().iter().filter(|id| !there.contains(id)).cloned().collect();
            Ok(Chosen { rows, wanted: Wanted::Settled, missing, more: false })
        }
        Rows::Filter { filter: RedriveFilter(filter), after } => {
            let filter = OutboxFilter { tenant: operator.visible(filter.tenant)?, ..filter.clone() };
            let wanted = filter.status.map_or(Wanted::Settled, Wanted::Just);
            let mut rows =
                outbox.view().await?.outbox_view().outbox_after(&filter, *after, MAX_REDRIVEN + 1).await?;
            let more = rows.len() > MAX_REDRIVEN as usize;
            rows.truncate(MAX_REDRIVEN as usize);
            Ok(Chosen { rows, wanted, missing: Vec::new(), more })
        }
    }
}

impl Rows {
    /// Of which tenant, if one is named.
    fn tenant(&self) -> Option<TenantId> {
        match self {
            Rows::Events(_) => None,
            Rows::Filter { filter: RedriveFilter(filter), .. } => filter.tenant,
        }
    }

    /// After which row they begin.
    fn after(&self) -> Option<i64> {
        match self {
            Rows::Events(_) => None,
            Rows::Filter { after, .. } => *after,
        }
    }
}

/// What was asked for, for the audit log.
fn selection(command: &RedriveEvents) -> Map<String, Value> {
    let mut selection = match &command.rows {
        Rows::Events(events) => {
            asked([("eventIds", Some(events.as_slice().iter().map(EventId::as_str).collect()))])
        }
        Rows::Filter { filter: RedriveFilter(filter), after } => {
            asked([("filter", Some(Value::Object(events_of(filter)))), ("cursor", after.map(Value::from))])
        }
    };
    selection.insert("perSecond".to_owned(), command.pace.0.get().into());
    selection
}
