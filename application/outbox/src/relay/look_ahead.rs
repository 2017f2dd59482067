//! The search behind a backlog. While a few groups of events fill every window, the events of all other groups would wait
//! for the whole backlog; the relay searches them separately and publishes them first.
//!
//! **Invariant:** the position of the search is a hint. A row below it, such as one whose transaction committed late, is
//! found when the search begins again, and in its turn at the latest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::{Ahead, AheadQuery, DueQuery, EventGroup, OutboxRow};

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
    /// A search behind the groups that fill these rows, for `interval`. It goes on at the end that the search `before` it
    /// has reached. `None` if the rows are of many groups.
    pub(super) fn behind(
        window: &[&OutboxRow],
        interval: Duration,
        before: Option<LookAhead>,
    ) -> Option<LookAhead> {
        let groups = groups_filling(window);
        let end = before.and_then(|before| before.end);
        let until = Instant::now() + interval;
        (!groups.is_empty()).then_some(LookAhead { groups, pass_from: Some(0), end, until })
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
            self.groups.extend(groups_filling(&ahead.rows.iter().collect::<Vec<_>>()));
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

    /// Whether this search leaves out the row.
    pub(super) fn leaves_out(&self, row: &OutboxRow) -> bool {
        contains(&self.groups, row)
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

/// The groups that fill a window: those that have at least an eighth of its rows each, and half of its rows together.
/// Small groups (a tenant and a type) are preferred to types, and types to tenants. Empty if the rows are of too many
/// tenants and types.
fn groups_filling(window: &[&OutboxRow]) -> BTreeSet<EventGroup> {
    let of_both = |row: &OutboxRow| EventGroup::TenantAndType(row.aggregate.tenant, row.event_type.clone());
    let of_type = |row: &OutboxRow| EventGroup::Type(row.event_type.clone());
    let of_tenant = |row: &OutboxRow| EventGroup::Tenant(row.aggregate.tenant);
    let kinds: [&dyn Fn(&OutboxRow) -> EventGroup; 3] = [&of_both, &of_type, &of_tenant];
    let mut filling = BTreeSet::new();
    for group_of in kinds {
        let mut rows: BTreeMap<EventGroup, usize> = BTreeMap::new();
        for row in window {
            *rows.entry(group_of(row)).or_default() += 1;
        }
        let large = rows.into_iter().filter(|(_, rows)| rows * 8 >= window.len());
        filling.extend(large.map(|(group, _)| group));
        if window.iter().filter(|row| contains(&filling, row)).count() * 2 >= window.len() {
            return filling;
        }
    }
    BTreeSet::new()
}

fn contains(groups: &BTreeSet<EventGroup>, row: &OutboxRow) -> bool {
    groups.iter().any(|group| group.contains(row.aggregate.tenant, &row.event_type))
}
