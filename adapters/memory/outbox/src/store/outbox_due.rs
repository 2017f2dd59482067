//! Which rows of the outbox may be published now, and whose are held.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, OutboxStatus, TenantId};
use handover_outbox::ports::{Blocked, DueQuery, Numbered, OnFailed, OutboxRow, UnorderedTypes};

use super::limited;
use super::outbox_index::{of_aggregate, place};
use super::outbox_tables::{OutboxRows as _, Statement};
use super::tables::below;

fn is_due(row: &OutboxRow, now: DateTime<Utc>) -> bool {
    row.next_retry_time.is_none_or(|due| due <= now)
}

/// Whether it was given up and nobody released it. Under `hold` it holds back later events of its aggregate, if it is
/// ordered.
pub(super) fn is_unreleased(row: &OutboxRow) -> bool {
    row.status == OutboxStatus::Failed && row.released_time.is_none()
}

/// What of one aggregate may go: its ordered due rows up to the first that holds back the rest.
struct Line<'s> {
    free: Vec<&'s OutboxRow>,
    taken: usize,
}

impl<'s> Line<'s> {
    fn of(
        statement: &'s Statement<'_>,
        aggregate: &AggregateRef,
        DueQuery { now, on_failed, unordered, .. }: &DueQuery,
    ) -> Line<'s> {
        let mut free = Vec::new();
        for row in ordered(statement, aggregate, unordered) {
            match row.status {
                OutboxStatus::New | OutboxStatus::Retry if is_due(row, *now) => free.push(row),
                // Sent once more: whoever takes it could have it already.
                OutboxStatus::Retry if row.sent_time.is_some() => {}
                // Only a person inserts a row that is due later.
                OutboxStatus::New => {}
                OutboxStatus::Retry => break,
                OutboxStatus::Failed if *on_failed == OnFailed::Hold && is_unreleased(row) => break,
                OutboxStatus::Failed | OutboxStatus::Sent => {}
            }
        }
        Line { free, taken: 0 }
    }

    /// The rows not taken yet, up to and with this one; none if this one is held back.
    fn take_up_to(&mut self, row: &OutboxRow) -> &[&'s OutboxRow] {
        let first = self.taken;
        let waiting = self.free.get(first..).unwrap_or_default();
        let Some(position) = waiting.iter().position(|free| free.id == row.id) else { return &[] };
        self.taken = first + position + 1;
        waiting.get(..=position).unwrap_or_default()
    }
}

/// What may be published now, smallest id first.
pub(super) fn due(statement: &Statement<'_>, query: &DueQuery) -> Vec<OutboxRow> {
    let most = limited(query.limit);
    let outbox = statement.outbox();
    let pending = outbox
        .select(|table| table.index.pending.iter().filter_map(|id| Some((*id, table.get(id)?))))
        .filter(|row| query.partitions.contains(row.partition()) && is_due(row, query.now));
    let mut lines: BTreeMap<&AggregateRef, Line<'_>> = BTreeMap::new();
    let mut due = Vec::new();
    for row in pending {
        if due.len() >= most {
            break;
        }
        if query.unordered.is_ordered(&row.event_type) {
            let line =
                lines.entry(&row.aggregate).or_insert_with(|| Line::of(statement, &row.aggregate, query));
            due.extend_from_slice(line.take_up_to(row));
        } else {
            due.push(row);
        }
    }
    due.truncate(most);
    due.into_iter().cloned().collect()
}

/// The ordered rows of an aggregate, in their order.
fn ordered<'s>(
    statement: &'s Statement<'_>,
    aggregate: &AggregateRef,
    unordered: &UnorderedTypes,
) -> impl Iterator<Item = &'s OutboxRow> {
    of_aggregate(statement, aggregate).filter(|row| unordered.is_ordered(&row.event_type))
}

/// The events of an aggregate that hold back later ones under `hold`, in their order.
pub(super) fn blocking<'s>(
    statement: &'s Statement<'_>,
    aggregate: &AggregateRef,
    unordered: &UnorderedTypes,
) -> impl Iterator<Item = &'s OutboxRow> {
    ordered(statement, aggregate, unordered).filter(|row| is_unreleased(row))
}

/// The blocked aggregates, the one with the greatest number first.
pub(super) fn blocked(
    statement: &Statement<'_>,
    unordered: &UnorderedTypes,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<Blocked>> {
    let outbox = statement.outbox();
    let unreleased = outbox.select(|table| {
        below(&table.index.unreleased, before).filter_map(|id| Some((Reverse(*id), table.get(id)?)))
    });
    let first_of_its_aggregate = |row: &&OutboxRow| {
        blocking(statement, &row.aggregate, unordered).next().is_some_and(|first| first.id == row.id)
    };
    unreleased
        .filter(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant))
        .filter(first_of_its_aggregate)
        .take(limited(limit))
        .map(|row| Numbered { id: row.id, effect: held_by(statement, unordered, row) })
        .collect()
}

/// The aggregates whose next event waits for its time, the one with the greatest number first.
pub(super) fn waiting(
    statement: &Statement<'_>,
    unordered: &UnorderedTypes,
    tenant: Option<TenantId>,
    now: DateTime<Utc>,
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<Blocked>> {
    let outbox = statement.outbox();
    let pending = outbox.select(|table| {
        below(&table.index.pending, before).filter_map(|id| Some((Reverse(*id), table.get(id)?)))
    });
    let is_next = |row: &OutboxRow| {
        row.status.is_pending() && unordered.is_ordered(&row.event_type) && row.sent_time.is_none()
    };
    pending
        .filter(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant))
        .filter(|row| is_next(row) && !is_due(row, now))
        .filter(|row| {
            !of_aggregate(statement, &row.aggregate).any(|other| is_next(other) && place(other) < place(row))
        })
        .take(limited(limit))
        .map(|row| Numbered { id: row.id, effect: held_by(statement, unordered, row) })
        .collect()
}

fn held_by(statement: &Statement<'_>, unordered: &UnorderedTypes, row: &OutboxRow) -> Blocked {
    let waits = |other: &&OutboxRow| other.status.is_pending() && place(other) > place(row);
    Blocked {
        aggregate: row.aggregate.clone(),
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        last_error: row.last_error.clone(),
        since: row.update_time,
        until: row.status.is_pending().then_some(row.next_retry_time).flatten(),
        held: ordered(statement, &row.aggregate, unordered).filter(waits).fold(0, |held, _| held + 1),
    }
}
