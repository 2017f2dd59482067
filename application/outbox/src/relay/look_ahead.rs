//! The search behind a backlog. While a few groups of events fill every window, the events of all other groups would wait
//! for the whole backlog; the relay searches them separately and publishes them first.
//!
//! **Invariant:** the position of the search is a hint. A row below it, such as one whose transaction committed late, is
//! found when the search begins again, and in its turn at the latest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::{Ahead, AheadQuery, DueQuery, EventGroup, OutboxRow};

/// Maximum number of pending rows that one search reads.
const MAX_READ: u32 = 5_000;

/// Maximum number of groups that a search leaves out: each one is a condition of its statement.
const MAX_GROUPS: usize = 64;

/// The search reads again what was added within this time: the transaction of a smaller id may commit later than that
/// of a greater one, and only the first pending row of an aggregate is found.
const OVERLAP: Duration = Duration::from_millis(500);

/// A search behind the backlog of some groups.
#[derive(Debug)]
pub(super) struct LookAhead {
    groups: BTreeSet<EventGroup>,
    from_id: i64,
    /// End of the outbox at a time that is at least [`OVERLAP`] before `next_end`.
    earlier_end: i64,
    next_end: Instant,
    has_reached_end: bool,
    until: Instant,
}

impl LookAhead {
    /// A search behind the groups that fill this window, for `interval`. `None` if it has rows of many groups.
    pub(super) fn behind(window: &[OutboxRow], interval: Duration) -> Option<LookAhead> {
        let groups = groups_filling(window);
        let now = Instant::now();
        (!groups.is_empty()).then_some(LookAhead {
            groups,
            from_id: 0,
            earlier_end: 0,
            next_end: now,
            has_reached_end: false,
            until: now + interval,
        })
    }

    /// The next search. It finds at most half a window, so that the backlog progresses too.
    pub(super) fn query(&self, due: DueQuery) -> AheadQuery {
        let due = DueQuery { limit: (due.limit / 2).max(1), from_id: self.from_id, ..due };
        AheadQuery { due, except: self.groups.clone(), max_read: MAX_READ }
    }

    /// Records the result of [`LookAhead::query`].
    pub(super) fn found(&mut self, query: &AheadQuery, ahead: &Ahead) {
        if ahead.rows.len() as u64 >= u64::from(query.due.limit) {
            // These groups have a backlog too.
            self.groups.extend(groups_filling(&ahead.rows));
        }
        if !ahead.is_end {
            self.from_id = ahead.next_id;
            return;
        }
        self.has_reached_end = true;
        let now = Instant::now();
        if now >= self.next_end {
            self.from_id = self.from_id.max(self.earlier_end);
            self.earlier_end = ahead.next_id;
            self.next_end = now + OVERLAP;
        }
    }

    /// Whether rows behind the backlog were not read yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.has_reached_end
    }

    /// Whether the search has to begin again, with the groups of the next window.
    pub(super) fn is_over(&self) -> bool {
        self.groups.len() > MAX_GROUPS || self.has_reached_end && Instant::now() >= self.until
    }
}

/// The groups that fill a window: those that have at least an eighth of its rows each, and half of its rows together.
/// Small groups (a tenant and a type) are preferred to types, and types to tenants. Empty if the rows are of too many
/// tenants and types.
fn groups_filling(window: &[OutboxRow]) -> BTreeSet<EventGroup> {
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
        let is_in = |row: &&OutboxRow| {
            let tenant = row.aggregate.tenant;
            filling.iter().any(|group| group.contains(tenant, &row.event_type))
        };
        if window.iter().filter(is_in).count() * 2 >= window.len() {
            return filling;
        }
    }
    BTreeSet::new()
}
