//! The search behind a backlog. While a few groups of events fill every window, the events of all other groups would wait
//! for the whole backlog; the relay searches them separately and publishes them first.
//!
//! **Invariant:** the position of the search is a hint. A row below it, such as one whose transaction committed late, is
//! found when the search begins again, and in its turn at the latest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use handover_events::TenantId;
use tokio::time::Instant;

use super::recent::Origin;
use crate::ports::{Ahead, AheadQuery, DueQuery, EventGroup};

/// Maximum number of pending rows that one search reads until the end was reached, and afterwards: then it may take only little
/// of the time of new rows.
const MAX_READ: u32 = 5_000;
const MAX_READ_BESIDE_END: u32 = 1_000;

/// Maximum number of groups that a search leaves out: each one is a condition of its statement.
const MAX_GROUPS: usize = 64;

/// The search reads again what was added within this time: the transaction of a smaller id may commit later than that
/// of a greater one, and only the first pending row of an aggregate is found.
const OVERLAP: Duration = Duration::from_millis(500);

/// A search behind the backlog of some groups.
#[derive(Debug)]
pub(super) struct LookAhead {
    groups: BTreeSet<EventGroup>,
    /// Where the pass over all pending rows continues; `None` after it.
    pass_from: Option<i64>,
    /// `None` until a pass has reached it.
    end: Option<End>,
    until: Instant,
}

/// The end of the outbox, where new rows are searched.
#[derive(Debug, Clone, Copy)]
struct End {
    from_id: i64,
    /// End of the outbox at a time that is at least [`OVERLAP`] before `next`.
    earlier: i64,
    next: Instant,
}

/// A part of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// New rows.
    End,
    /// The pass over all pending rows.
    Pass,
}

impl LookAhead {
    /// A search from this id behind the groups that fill these events, for `interval`. It goes on at the end that the search
    /// `before` it has reached. `None` if the events are of many groups.
    pub(super) fn behind(
        events: &[Origin],
        from_id: i64,
        interval: Duration,
        before: Option<LookAhead>,
    ) -> Option<LookAhead> {
        let events: Vec<_> = events.iter().map(|event| (event.tenant, event.event_type.as_str())).collect();
        let groups = groups_filling(&events);
        let end = before.and_then(|before| before.end);
        let until = Instant::now() + interval;
        (!groups.is_empty()).then_some(LookAhead { groups, pass_from: Some(from_id), end, until })
    }

    /// The next search of this part, if there is one. It finds at most half a window, so that the backlog progresses too.
    pub(super) fn query(&self, part: Part, due: DueQuery) -> Option<AheadQuery> {
        let from_id = match part {
            Part::End => self.end?.from_id,
            Part::Pass => self.pass_from?,
        };
        let due = DueQuery { limit: (due.limit / 2).max(1), from_id, ..due };
        let max_read = if self.knows_end() { MAX_READ_BESIDE_END } else { MAX_READ };
        Some(AheadQuery { due, except: self.groups.clone(), max_read })
    }

    /// Records the result of [`LookAhead::query`].
    pub(super) fn found(&mut self, part: Part, query: &AheadQuery, ahead: &Ahead) {
        if ahead.rows.len() as u64 >= u64::from(query.due.limit) {
            // These groups have a backlog too.
            let events = ahead.rows.iter().map(|row| (row.aggregate.tenant, row.event_type.as_str()));
            self.groups.extend(groups_filling(&events.collect::<Vec<_>>()));
        }
        let now = Instant::now();
        let reached = End { from_id: query.due.from_id, earlier: ahead.next_id, next: now + OVERLAP };
        match (part, ahead.is_end, &mut self.end) {
            (Part::Pass, true, end) => {
                end.get_or_insert(reached);
                self.pass_from = None;
            }
            (Part::Pass, false, _) => self.pass_from = Some(ahead.next_id),
            (Part::End, false, Some(end)) => end.from_id = ahead.next_id,
            (Part::End, true, Some(end)) if now >= end.next => {
                *end = End { from_id: end.from_id.max(end.earlier), ..reached };
            }
            (Part::End, _, _) => {}
        }
    }

    /// Whether this search leaves out the event.
    pub(super) fn leaves_out(&self, event: &Origin) -> bool {
        self.groups.iter().any(|group| group.contains(event.tenant, &event.event_type))
    }

    /// Whether new rows are found without a pass over all rows before them.
    pub(super) fn knows_end(&self) -> bool {
        self.end.is_some()
    }

    /// Whether rows behind the backlog were not read yet.
    pub(super) fn is_behind(&self) -> bool {
        self.pass_from.is_some()
    }

    /// Whether the search has to begin again, with the groups of the next window.
    pub(super) fn is_over(&self) -> bool {
        self.groups.len() > MAX_GROUPS || !self.is_behind() && Instant::now() >= self.until
    }
}

/// Tenant and type of an event.
type Source<'e> = (TenantId, &'e str);

/// The groups that fill a window of events: those that have at least an eighth of the events each, and half of them together.
/// Small groups (a tenant and a type) are preferred to types, and types to tenants. Empty if the events are of too many
/// tenants and types.
fn groups_filling(events: &[Source<'_>]) -> BTreeSet<EventGroup> {
    let of_both = |(tenant, kind): Source<'_>| EventGroup::TenantAndType(tenant, kind.to_owned());
    let of_type = |(_, kind): Source<'_>| EventGroup::Type(kind.to_owned());
    let of_tenant = |(tenant, _): Source<'_>| EventGroup::Tenant(tenant);
    let kinds: [&dyn Fn(Source<'_>) -> EventGroup; 3] = [&of_both, &of_type, &of_tenant];
    let mut filling = BTreeSet::new();
    for group_of in kinds {
        let mut counts: BTreeMap<EventGroup, usize> = BTreeMap::new();
        for event in events {
            *counts.entry(group_of(*event)).or_default() += 1;
        }
        let large = counts.into_iter().filter(|(_, count)| count * 8 >= events.len());
        filling.extend(large.map(|(group, _)| group));
        let is_in = |(tenant, kind): &&Source<'_>| {
            filling.iter().any(|group: &EventGroup| group.contains(*tenant, kind))
        };
        if events.iter().filter(is_in).count() * 2 >= events.len() {
            return filling;
        }
    }
    BTreeSet::new()
}
