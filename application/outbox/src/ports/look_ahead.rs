//! The search for outbox rows behind a backlog of other groups of events.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;

use super::outbox::{DueQuery, OutboxRow};

/// A group of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventGroup {
    /// All events of a tenant.
    Tenant(TenantId),
    /// All events of a type.
    Type(String),
    /// The events of a tenant of one type.
    TenantAndType(TenantId, String),
}

impl EventGroup {
    /// Whether the event of this row belongs to the group.
    pub fn contains(&self, row: &OutboxRow) -> bool {
        match self {
            EventGroup::Tenant(tenant) => row.aggregate.tenant == *tenant,
            EventGroup::Type(event_type) => row.event_type == *event_type,
            EventGroup::TenantAndType(tenant, event_type) => {
                row.aggregate.tenant == *tenant && row.event_type == *event_type
            }
        }
    }

    /// The groups that fill a window: those that have at least an eighth of its rows each, and half of its rows together.
    /// Small groups (a tenant and a type) are preferred to types, and types to tenants. Empty if the rows are of too many
    /// tenants and types.
    pub fn filling(window: &[OutboxRow]) -> BTreeSet<EventGroup> {
        let of_both =
            |row: &OutboxRow| EventGroup::TenantAndType(row.aggregate.tenant, row.event_type.clone());
        let of_type = |row: &OutboxRow| EventGroup::Type(row.event_type.clone());
        let of_tenant = |row: &OutboxRow| EventGroup::Tenant(row.aggregate.tenant);
        let kinds: [&dyn Fn(&OutboxRow) -> EventGroup; 3] = [&of_both, &of_type, &of_tenant];
        let mut filling = BTreeSet::new();
        for group_of in kinds {
            let mut rows: BTreeMap<EventGroup, usize> = BTreeMap::new();
            for row in window {
                *rows.entry(group_of(row)).or_default() += 1;
            }
            let large = rows.into_iter().filter(|(_, rows)| *rows > 0 && rows * 8 >= window.len());
            filling.extend(large.map(|(group, _)| group));
            let is_in = |row: &&OutboxRow| filling.iter().any(|group| group.contains(row));
            if window.iter().filter(is_in).count() * 2 >= window.len() {
                return filling;
            }
        }
        BTreeSet::new()
    }
}

/// Arguments of [`OutboxQueries::outbox_ahead`](super::OutboxQueries::outbox_ahead).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AheadQuery {
    /// Conditions of the rows. Rows with ids below `from_id` are left out.
    pub due: DueQuery,
    /// Groups whose rows are left out.
    pub except: BTreeSet<EventGroup>,
    /// Maximum number of pending rows that are read, those of other partitions and of `except` included.
    pub max_read: u32,
}

/// Result of [`OutboxQueries::outbox_ahead`](super::OutboxQueries::outbox_ahead).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Rows that may be published now, smallest id first.
    pub rows: Vec<OutboxRow>,
    /// The id from which the next search continues.
    pub next_id: i64,
    /// Whether every pending row from `from_id` on was read.
    pub is_end: bool,
}
