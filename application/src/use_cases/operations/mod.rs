//! What operators do: events and dead letters moved on, and everything that is behind an order looked at.
//!
//! **Invariant:** who did it, on what and why goes into the audit log in the very unit of work that changed something.
//! What changed nothing, a dry run among it, leaves no entry. An entry is in the log of the tenant whose rows it is about,
//! whoever did it: that tenant's operators see it, and no others but `platform`.
//!
//! An action on many rows runs in units of bounded size and of one tenant each, with one entry each. Where a later unit fails after an earlier one
//! was committed, the answer says what was done and that there is `more`: asked again, the action goes on from there.

mod discard;
mod give;
mod letters;
mod look;
mod reconcile;
mod redrive;
mod release;
mod replay;
mod stats;
mod timeline;

pub use discard::{DiscardLetters, Discarded, discard_dead_letters};
pub use give::{Gift, IssueCoupon, give, issue_coupon};
pub use letters::{Letters, MAX_LETTERS, Refused};
pub use look::{Parked, audit_log, blocked, consumptions, dead_letters, find_event};
pub use reconcile::{
    Finding, FindingKind, GRACE, MAX_FINDINGS, Mended, Reconcile, Reconciliation, reconcile,
};
pub use redrive::{
    BadFilter, MAX_REDRIVEN, Pace, RedriveEvents, RedriveFilter, Redriven, Rows, redrive_events,
};
pub use release::release_aggregate;
pub use replay::{ReplayLetters, Replayed, replay_dead_letters};
pub use stats::{ConsumerStats, MAX_BLOCKED_COUNTED, Stats, stats};
pub use timeline::{Timeline, TimelineItem, TimelineKind, timeline};

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_domain::{TenantId, TextError};
use serde_json::{Map, Value};

use crate::ports::{AuditEntry, AuditQueries, StoreError};
use crate::{Attempt, CommandContext};

/// The greatest number of ids or keys that a call names one by one: as many of the longest, with the longest reason, as
/// fit into a body of 64 KiB.
pub const MAX_NAMED: usize = 900;

/// How many entries of the audit log are looked through for the one of an attempt whose outcome is unknown. Only what
/// other operators did since the beginning of that attempt can lie before it.
const LOOK_BACK: u32 = 100;

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
pub(super) struct Action {
    pub(super) name: &'static str,
    /// The ids or the filter as they were asked for.
    pub(super) selection: Map<String, Value>,
    pub(super) reason: Option<Reason>,
}

impl Action {
    /// Divides rows of any tenants into units of at most `size` rows of one tenant, each with its entry in that tenant's
    /// log; the rows of a tenant keep their order.
    fn units<T>(
        &self,
        context: &CommandContext,
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
                let entry = AuditEntry { tenant, ..self.entry(context, (part, parts), at) };
                units.push(ActionUnit { rows: rows.by_ref().take(size).collect(), entry });
            }
        }
        units
    }

    /// The entry of one of its units, but for how much that changed: fixed before the first attempt.
    pub(super) fn entry(
        &self,
        context: &CommandContext,
        (part, parts): (usize, usize),
        at: DateTime<Utc>,
    ) -> AuditEntry {
        let mut selection = self.selection.clone();
        if parts > 1 {
            selection.insert("part".to_owned(), part.into());
            selection.insert("parts".to_owned(), parts.into());
        }
        AuditEntry {
            tenant: context.tenant,
            actor: context.actor.to_string(),
            action: self.name.to_owned(),
            selection: Value::Object(selection).to_string(),
            changed: 0,
            reason: self.reason.as_ref().map(|reason| reason.0.clone()),
            trace_id: context.trace.trace_id.clone(),
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
async fn done_before<U: AuditQueries + ?Sized>(
    unit: &mut U,
    attempt: Attempt,
    entry: &AuditEntry,
) -> Result<Option<u64>, StoreError> {
    if !attempt.may_have_happened() {
        return Ok(None);
    }
    let newest = unit.audit_page(Some(entry.tenant), None, LOOK_BACK).await?;
    let ours = |it: &AuditEntry| AuditEntry { changed: it.changed, ..entry.clone() } == *it;
    Ok(newest.into_iter().map(|it| it.effect).find(ours).map(|it| it.changed))
}

/// What was asked for, without what was not.
pub(super) fn asked<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
