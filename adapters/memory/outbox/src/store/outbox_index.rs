//! Indexes of outbox rows: by event, by aggregate, by status and time.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus};
use handover_outbox::ports::{OutboxFilter, OutboxRow};

use super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::tables::{Row, Table};

/// Position of a row within its aggregate: `aggregate_seq`, then id.
type Position = (i64, i64);

/// Whether the row is FAILED and not released. With `outbox.on-failed = "hold"` such a row blocks later events of its
/// aggregate, if its type is ordered.
pub(super) fn is_unreleased(row: &OutboxRow) -> bool {
    row.status == OutboxStatus::Failed && row.released_time.is_none()
}

#[derive(Default)]
pub(super) struct OutboxIndex {
    by_event: BTreeMap<EventId, i64>,
    by_aggregate: BTreeMap<AggregateRef, BTreeSet<Position>>,
    pub(super) pending: BTreeSet<i64>,
    /// FAILED rows that were not released.
    pub(super) unreleased: BTreeSet<i64>,
    pub(super) retries: BTreeSet<(DateTime<Utc>, i64)>,
    sent: BTreeSet<(DateTime<Utc>, i64)>,
}

impl Row<OutboxTables> for OutboxRow {
    type Key = i64;
    type Index = OutboxIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut OutboxIndex) {
        index.by_event.insert(self.event_id.clone(), self.id);
        match index.by_aggregate.get_mut(&self.aggregate) {
            Some(positions) => {
                positions.insert(position(self));
            }
            None => {
                index.by_aggregate.insert(self.aggregate.clone(), BTreeSet::from([position(self)]));
            }
        }
        if self.status.is_pending() {
            index.pending.insert(self.id);
            index.retries.extend(self.next_retry_time.map(|due| (due, self.id)));
        }
        if is_unreleased(self) {
            index.unreleased.insert(self.id);
        }
        index.sent.extend(self.sent_time.map(|sent| (sent, self.id)));
    }

    fn leave(&self, index: &mut OutboxIndex) {
        // The entries in `by_event` and `by_aggregate` stay: event and aggregate of a row never change, so `enter`
        // writes the same entries again.
        index.pending.remove(&self.id);
        index.unreleased.remove(&self.id);
        if let Some(due) = self.next_retry_time {
            index.retries.remove(&(due, self.id));
        }
        if let Some(sent) = self.sent_time {
            index.sent.remove(&(sent, self.id));
        }
    }
}

pub(super) fn position(row: &OutboxRow) -> Position {
    (row.aggregate_seq, row.id)
}

pub(super) fn of_event<'s>(statement: &'s Statement<'_>, event: &EventId) -> Option<&'s OutboxRow> {
    let found = |table: &'s Table<OutboxRow, OutboxTables>| {
        table.index.by_event.get(event).and_then(|id| Some((*id, table.get(id)?)))
    };
    statement.outbox().select(|table| found(table).into_iter()).next()
}

/// The rows of an aggregate, sorted by `aggregate_seq`, then by id.
pub(super) fn of_aggregate<'s>(
    statement: &'s Statement<'_>,
    aggregate: &AggregateRef,
) -> impl Iterator<Item = &'s OutboxRow> {
    statement.outbox().select(move |table| {
        let positions = table.index.by_aggregate.get(aggregate).into_iter().flatten();
        positions.filter_map(|position| Some((*position, table.get(&position.1)?)))
    })
}

/// The rows sent after `after` and up to `until`, earliest first.
pub(super) fn sent_between<'s>(
    statement: &'s Statement<'_>,
    after: DateTime<Utc>,
    until: DateTime<Utc>,
) -> impl Iterator<Item = &'s OutboxRow> {
    statement.outbox().select(move |table| {
        let sent = table.index.sent.range((after, i64::MAX)..).take_while(move |(sent, _)| *sent <= until);
        sent.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
    })
}

/// Whether the row matches the filter.
pub(super) fn passes(filter: &OutboxFilter, row: &OutboxRow) -> bool {
    filter.above_id.is_none_or(|id| row.id > id)
        && filter.below_id.is_none_or(|id| row.id < id)
        && filter.tenant.is_none_or(|tenant| row.aggregate.tenant == tenant)
        && filter.status.is_none_or(|status| row.status == status)
        && filter.event_type.as_ref().is_none_or(|event_type| row.event_type == *event_type)
        && filter.aggregate_type.as_ref().is_none_or(|kind| row.aggregate.kind == *kind)
        && filter.aggregate_id.as_ref().is_none_or(|id| row.aggregate.id == *id)
        && filter.from.is_none_or(|from| row.create_time >= from)
        && filter.to.is_none_or(|to| row.create_time < to)
}
