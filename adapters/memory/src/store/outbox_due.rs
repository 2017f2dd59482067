//! Which rows of the outbox may be published now, and whose are held.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_application::ports::{Blocked, Numbered, OnFailed, OutboxRow};
use handover_domain::{AggregateRef, EventType, OutboxStatus, PartitionSet, TenantId};

use super::limited;
use super::outbox_index::{of_aggregate, place};
use super::statement::Statement;
use super::tables::below;

pub(super) fn is_ordered(row: &OutboxRow) -> bool {
    row.event_type != EventType::OrderTimeout.as_str()
}

fn is_due(row: &OutboxRow, now: DateTime<Utc>) -> bool {
    row.next_retry_time.is_none_or(|due| due <= now)
}

/// Whether later events of its aggregate are held by this one, under `hold`.
pub(super) fn blocks(row: &OutboxRow) -> bool {
    row.status == OutboxStatus::Failed && row.released_time.is_none() && is_ordered(row)
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
        now: DateTime<Utc>,
        on_failed: OnFailed,
    ) -> Line<'s> {
        let mut free = Vec::new();
        for row in of_aggregate(statement, aggregate).filter(|row| is_ordered(row)) {
            match row.status {
                OutboxStatus::New | OutboxStatus::Retry if is_due(row, now) => free.push(row),
                // Sent once more: whoever takes it could have it already.
                OutboxStatus::Retry if row.sent_time.is_some() => {}
                // Only a person inserts a row that is due later.
                OutboxStatus::New => {}
                OutboxStatus::Retry => break,
                OutboxStatus::Failed if on_failed == OnFailed::Hold && blocks(row) => break,
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
pub(super) fn due(
    statement: &Statement<'_>,
    partitions: PartitionSet,
    now: DateTime<Utc>,
    on_failed: OnFailed,
    limit: u32,
) -> Vec<OutboxRow> {
    let outbox = statement.outbox();
    let pending = outbox
        .select(|table| table.index.pending.iter().filter_map(|id| Some((*id, table.get(id)?))))
        .filter(|row| partitions.contains(row.partition()) && is_due(row, now));
    let mut lines: BTreeMap<&AggregateRef, Line<'_>> = BTreeMap::new();
    let mut due = Vec::new();
    for row in pending {
        if due.len() >= limited(limit) {
            break;
        }
        if is_ordered(row) {
            let line = lines
                .entry(&row.aggregate)
                .or_insert_with(|| Line::of(statement, &row.aggregate, now, on_failed));
            due.extend_from_slice(line.take_up_to(row));
        } else {
            due.push(row);
        }
    }
    due.truncate(limited(limit));
    due.into_iter().cloned().collect()
}

/// The blocked aggregates, the one with the greatest number first.
pub(super) fn blocked(
    statement: &Statement<'_>,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<Blocked>> {
    let outbox = statement.outbox();
    let blocking = outbox.select(|table| {
        below(&table.index.blocking, before).filter_map(|id| Some((Reverse(*id), table.get(id)?)))
    });
    let first_of_its_aggregate = |row: &&OutboxRow| {
        let first = of_aggregate(statement, &row.aggregate).find(|other| blocks(other));
        first.is_some_and(|first| first.id == row.id)
    };
    blocking
        .filter(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant))
        .filter(first_of_its_aggregate)
        .take(limited(limit))
        .map(|row| Numbered { id: row.id, effect: held_by(statement, row) })
        .collect()
}

/// The aggregates whose next event waits for its time, the one with the greatest number first.
pub(super) fn waiting(
    statement: &Statement<'_>,
    tenant: Option<TenantId>,
    now: DateTime<Utc>,
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<Blocked>> {
    let outbox = statement.outbox();
    let pending = outbox.select(|table| {
        below(&table.index.pending, before).filter_map(|id| Some((Reverse(*id), table.get(id)?)))
    });
    let is_next = |row: &OutboxRow| row.status.is_pending() && is_ordered(row) && row.sent_time.is_none();
    pending
        .filter(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant))
        .filter(|row| is_next(row) && !is_due(row, now))
        .filter(|row| {
            !of_aggregate(statement, &row.aggregate).any(|other| is_next(other) && place(other) < place(row))
        })
        .take(limited(limit))
        .map(|row| Numbered { id: row.id, effect: held_by(statement, row) })
        .collect()
}

fn held_by(statement: &Statement<'_>, row: &OutboxRow) -> Blocked {
    let waits =
        |other: &&OutboxRow| other.status.is_pending() && is_ordered(other) && place(other) > place(row);
    Blocked {
        aggregate: row.aggregate.clone(),
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        last_error: row.last_error.clone(),
        since: row.update_time,
        until: row.status.is_pending().then_some(row.next_retry_time).flatten(),
        held: of_aggregate(statement, &row.aggregate).filter(waits).fold(0, |held, _| held + 1),
    }
}
