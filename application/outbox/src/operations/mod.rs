//! What operators do: events and dead letters moved on, and looked at.
//!
//! **Invariant:** each call is in the audit log (who, what, on which rows, how many, why): what changed something in the
//! very unit of work that changed it, what changed nothing (a look, a dry run, nothing that fits) before its answer is
//! given. An entry is in the log of the tenant whose rows it is about, whoever did it: that tenant's operators see it, and
//! no others but `platform`. A look at all tenants is in the log of the one who looked.
//!
//! An action on many rows runs in units of bounded size and of one tenant each, with one entry each. Where a later unit fails after an earlier one
//! was committed, the answer says what was done and that there is `more`: asked again, the action goes on from there.

mod discard;
mod letters;
mod look;
mod operator;
mod redrive;
mod release;
mod replay;
mod stats;

pub use discard::{DiscardLetters, Discarded, discard_dead_letters};
pub use letters::{Letters, MAX_LETTERS, Refused};
pub use look::{Parked, audit_log, blocked, consumptions, dead_letters, find_event, outbox, queues};
pub use operator::{OperationError, Operator};
pub use redrive::{
    BadFilter, MAX_REDRIVEN, Pace, RedriveEvents, RedriveFilter, Redriven, Rows, redrive_events,
};
pub use release::release_aggregate;
pub use replay::{ReplayLetters, Replayed, replay_dead_letters};
pub use stats::{ConsumerStats, MAX_BLOCKED_COUNTED, Stats, stats};

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use handover_events::{TenantId, TextError};
use serde_json::{Map, Value};

use crate::ports::{AuditEntry, AuditFilter, AuditQueries, OutboxFilter, OutboxUnit, StoreError};
use crate::{Attempt, Outbox, with_tx};

/// The greatest number of ids or keys that a call names one by one: as many of the longest, with the longest reason, as
/// fit into a body of 64 KiB.
pub const MAX_NAMED: usize = 900;

/// How many entries of the audit log are looked through for the one of an attempt whose outcome is unknown. Only what
/// other operators did since the beginning of that attempt can lie before it, looks among it.
const LOOK_BACK: u32 = 1_000;

/// Why an operator does something, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// The greatest number of characters.
    pub const MAX_CHARS: usize = 500;

    /// A reason, if it is one.
    pub fn new(text: String) -> Result<Reason, TextError> {
        TextError::check(&text, Self::MAX_CHARS)?;
        Ok(Reason(text))
    }

    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a person named one by one: at least one, at most [`MAX_NAMED`], each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T>(Vec<T>);

impl<T: Ord + Clone> Named<T> {
    /// These names, in their order; `None` if there are none or too many.
    pub fn new(names: Vec<T>) -> Option<Named<T>> {
        if !(1..=MAX_NAMED).contains(&names.len()) {
            return None;
        }
        let mut seen = std::collections::BTreeSet::new();
        Some(Named(names.into_iter().filter(|name| seen.insert(name.clone())).collect()))
    }

    /// The names.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

/// An action as the audit log will name it.
#[derive(Debug, Clone)]
pub struct Action {
    /// Its name, as `outbox.redrive`.
    pub name: &'static str,
    /// The ids or the filter as they were asked for.
    pub selection: Map<String, Value>,
    /// Why, if it needs a reason.
    pub reason: Option<Reason>,
}

impl Action {
    /// A look.
    pub fn look<const N: usize>(name: &'static str, selection: [(&str, Option<Value>); N]) -> Action {
        Action { name, selection: asked(selection), reason: None }
    }

    /// A look at what people are in, whom the caller sees or does not.
    pub fn look_at_people<const N: usize>(
        name: &'static str,
        operator: &Operator,
        selection: [(&str, Option<Value>); N],
    ) -> Action {
        let mut look = Action::look(name, selection);
        if operator.sees_people {
            look.selection.insert("unmasked".to_owned(), true.into());
        }
        look
    }

    /// The same without any change.
    fn dry_run(mut self) -> Action {
        self.selection.insert("dryRun".to_owned(), true.into());
        self
    }

    /// Writes down that it was asked for and changed nothing, with how many rows it showed or chose, of this tenant or all.
    /// For before the answer is given: nobody sees what the log does not tell of.
    pub async fn told(
        self,
        outbox: &Outbox,
        operator: &Operator,
        tenant: Option<TenantId>,
        matched: u64,
    ) -> Result<(), StoreError> {
        let tenant = tenant.unwrap_or(operator.tenant);
        let entry = self.entry(operator, (1, 1), outbox.now());
        let entry = Arc::new(AuditEntry { tenant, matched, ..entry });
        with_tx(&outbox.tx, move |unit, attempt| {
            let entry = Arc::clone(&entry);
            Box::pin(async move {
                if done_before(unit.outbox(), attempt, &entry).await?.is_none() {
                    unit.outbox().audit(&entry).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Divides rows of any tenants into units of at most `size` rows of one tenant, each with its entry in that tenant's
    /// log; the rows of a tenant keep their order.
    fn units<T>(
        &self,
        operator: &Operator,
        rows: impl IntoIterator<Item = (TenantId, T)>,
        size: usize,
        at: DateTime<Utc>,
    ) -> Vec<ActionUnit<T>> {
        let mut of_tenants: BTreeMap<TenantId, Vec<T>> = BTreeMap::new();
        for (tenant, row) in rows {
            of_tenants.entry(tenant).or_default().push(row);
        }
        let mut units = Vec::new();
        for (tenant, rows) in of_tenants {
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

    /// The entry of one of its units, but for how much that changed: fixed before the first attempt.
    pub fn entry(&self, operator: &Operator, (part, parts): (usize, usize), at: DateTime<Utc>) -> AuditEntry {
        let mut selection = self.selection.clone();
        if parts > 1 {
            selection.insert("part".to_owned(), part.into());
            selection.insert("parts".to_owned(), parts.into());
        }
        AuditEntry {
            tenant: operator.tenant,
            actor: operator.name.clone(),
            action: self.name.to_owned(),
            selection: Value::Object(selection).to_string(),
            matched: 0,
            changed: 0,
            reason: self.reason.as_ref().map(|reason| reason.0.clone()),
            trace_id: operator.trace.trace_id.clone(),
            at,
        }
    }
}

/// Rows of one tenant that one unit of work moves, and its entry, but for how many it changed.
struct ActionUnit<T> {
    rows: Vec<T>,
    entry: AuditEntry,
}

/// What an earlier attempt at this unit changed, if it was committed: its entry is there.
pub async fn done_before<U: AuditQueries + ?Sized>(
    unit: &mut U,
    attempt: Attempt,
    entry: &AuditEntry,
) -> Result<Option<u64>, StoreError> {
    if !attempt.may_have_happened() {
        return Ok(None);
    }
    let filter = AuditFilter { tenant: Some(entry.tenant), changes: false };
    let newest = unit.audit_page(&filter, None, LOOK_BACK).await?;
    let ours =
        |it: &AuditEntry| AuditEntry { changed: it.changed, matched: it.matched, ..entry.clone() } == *it;
    Ok(newest.into_iter().map(|it| it.effect).find(ours).map(|it| it.changed))
}

/// Writes down a call that found done what it asks for: by an earlier one, as by an earlier attempt at itself it is written
/// down already.
pub async fn found_done(
    unit: &mut dyn OutboxUnit,
    attempt: Attempt,
    entry: &AuditEntry,
) -> Result<(), StoreError> {
    if done_before(unit, attempt, entry).await?.is_none() {
        unit.audit(&AuditEntry { changed: 0, ..entry.clone() }).await?;
    }
    Ok(())
}

/// The tenant that all of these are of, if there is one.
fn only(mut tenants: impl Iterator<Item = TenantId>) -> Option<TenantId> {
    let first = tenants.next()?;
    tenants.all(|tenant| tenant == first).then_some(first)
}

/// What was asked for, without what was not.
pub fn asked<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A filter of events, for the audit log.
pub(crate) fn events_of(filter: &OutboxFilter) -> Map<String, Value> {
    asked([
        ("status", filter.status.map(|status| status.as_str().into())),
        ("eventType", filter.event_type.as_deref().map(Value::from)),
        ("aggregateId", filter.aggregate_id.map(Value::from)),
        ("tenantId", filter.tenant.map(|tenant| tenant.get().into())),
        ("from", filter.from.map(rfc3339)),
        ("to", filter.to.map(rfc3339)),
    ])
}

/// A time, for the audit log.
pub fn rfc3339(time: DateTime<Utc>) -> Value {
    time.to_rfc3339_opts(SecondsFormat::Micros, true).into()
}

/// How many rows, for the audit log.
pub fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
