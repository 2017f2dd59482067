//! Due outbox rows, blocked aggregates, and aggregates that wait for a retry.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, OutboxStatus, TenantId};
use handover_outbox::ports::{
    Ahead, AheadQuery, Blocked, DueQuery, Numbered, OnFailed, OutboxRow, UnorderedTypes,
};

use super::outbox_index::{is_unreleased, of_aggregate, position};
use super::outbox_tables::{OutboxRows as _, Statement};
use super::tables::below;
use super::tables::limited;

fn is_due(row: &OutboxRow, now: DateTime<Utc>) -> bool {
    row.next_retry_time.is_none_or(|due| due <= now)
}

/// Publishable rows of one aggregate: its ordered due rows up to the first row that blocks the rest.
struct AggregateQueue<'s> {
    publishable: Vec<&'s OutboxRow>,
    taken: usize,
}

impl<'s> AggregateQueue<'s> {
    fn of(
        statement: &'s Statement<'_>,
        aggregate: &AggregateRef,
        DueQuery { now, on_failed, unordered, .. }: &DueQuery,
    ) -> AggregateQueue<'s> {
        let mut publishable = Vec::new();
        for row in ordered(statement, aggregate, unordered) {
            match row.status {
                OutboxStatus::New | OutboxStatus::Retry if is_due(row, *now) => publishable.push(row),
                // A redriven row that was sent before does not block later rows: consumers may have received its event.
                OutboxStatus::Retry if row.sent_time.is_some() => {}
                // A NEW row that is not due yet was inserted by SQL. Such a row does not block later rows.
                OutboxStatus::New => {}
                OutboxStatus::Retry => break,
                OutboxStatus::Failed if *on_failed == OnFailed::Hold && is_unreleased(row) => break,
                OutboxStatus::Failed | OutboxStatus::Sent => {}
            }
        }
        AggregateQueue { publishable, taken: 0 }
    }

    /// Takes the remaining publishable rows up to and including `row`; takes none if `row` is blocked.
    fn take_up_to(&mut self, row: &OutboxRow) -> &[&'s OutboxRow] {
        let first = self.taken;
        let waiting = self.publishable.get(first..).unwrap_or_default();
        let Some(position) = waiting.iter().position(|candidate| candidate.id == row.id) else { return &[] };
        self.taken = first + position + 1;
        waiting.get(..=position).unwrap_or_default()
    }
}

/// Rows that may be published now, in ascending order of id; but an earlier event of an aggregate precedes a later
/// event with a smaller id.
pub(super) fn due(statement: &Statement<'_>, query: &DueQuery) -> Vec<OutboxRow> {
    let most = limited(query.limit);
    let outbox = statement.outbox();
    let pending = outbox
        .select(|table| {
            table.index.pending.range(query.from_id..).filter_map(|id| Some((*id, table.get(id)?)))
        })
        .filter(|row| query.partitions.contains(row.partition()) && is_due(row, query.now));
    let mut queues: BTreeMap<&AggregateRef, AggregateQueue<'_>> = BTreeMap::new();
    let is_free = |row: &OutboxRow| !query.in_flight.contains(&row.id);
    let mut due: Vec<&OutboxRow> = Vec::new();
    for row in pending.filter(|row| is_free(row)) {
        if due.len() >= most {
            break;
        }
        if query.unordered.is_ordered(&row.event_type) {
            let aggregate_queue = queues
                .entry(&row.aggregate)
                .or_insert_with(|| AggregateQueue::of(statement, &row.aggregate, query));
            due.extend(aggregate_queue.take_up_to(row).iter().filter(|row| is_free(row)));
        } else {
            due.push(row);
        }
    }
    due.truncate(most);
    due.into_iter().cloned().collect()
}

/// Earliest `next_retry_time` after `now` of a pending row in the partitions.
pub(super) fn next_due(statement: &Statement<'_>, query: &DueQuery) -> Option<DateTime<Utc>> {
    let outbox = statement.outbox();
    let mut later = outbox
        .select(|table| {
            let retries = table.index.retries.range((query.now, i64::MAX)..);
            retries.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
        })
        .filter(|row| query.partitions.contains(row.partition()));
    later.find_map(|row| row.next_retry_time)
}

/// Rows of other groups than `except` that may be published now, in ascending order of id, each the first pending row of
/// its aggregate.
pub(super) fn ahead(
    statement: &Statement<'_>,
    AheadQuery { due: query, except, max_read }: &AheadQuery,
) -> Ahead {
    let outbox = statement.outbox();
    let mut pending = outbox.select(|table| {
        table.index.pending.range(query.from_id..).filter_map(|id| Some((*id, table.get(id)?)))
    });
    let mut ahead = Ahead { rows: Vec::new(), next_id: query.from_id, is_end: false };
    for _ in 0..*max_read {
        let Some(row) = pending.next() else {
            ahead.is_end = true;
            return ahead;
        };
        ahead.next_id = row.id + 1;
        let is_selected = query.partitions.contains(row.partition())
            && is_due(row, query.now)
            && !query.in_flight.contains(&row.id)
            && !except.iter().any(|group| group.contains(row.aggregate.tenant, &row.event_type));
        if is_selected && is_first(statement, row, query) {
            ahead.rows.push(row.clone());
            if ahead.rows.len() >= limited(query.limit) {
                return ahead;
            }
        }
    }
    ahead
}

/// Whether the row is unordered, or no earlier row of its aggregate is pending or blocks it.
fn is_first(statement: &Statement<'_>, row: &OutboxRow, query: &DueQuery) -> bool {
    if !query.unordered.is_ordered(&row.event_type) {
        return true;
    }
    let is_earlier_pending = |other: &OutboxRow| other.status.is_pending() && position(other) < position(row);
    !ordered(statement, &row.aggregate, &query.unordered).any(is_earlier_pending)
        && !AggregateQueue::of(statement, &row.aggregate, query).take_up_to(row).is_empty()
}

/// The rows of an aggregate whose event types are ordered, sorted by `aggregate_seq`, then by id.
fn ordered<'s>(
    statement: &'s Statement<'_>,
    aggregate: &AggregateRef,
    unordered: &UnorderedTypes,
) -> impl Iterator<Item = &'s OutboxRow> {
    of_aggregate(statement, aggregate).filter(|row| unordered.is_ordered(&row.event_type))
}

/// The rows of an aggregate that block its later rows with `outbox.on-failed = "hold"`, sorted by `aggregate_seq`, then
/// by id.
pub(super) fn blocking<'s>(
    statement: &'s Statement<'_>,
    aggregate: &AggregateRef,
    unordered: &UnorderedTypes,
) -> impl Iterator<Item = &'s OutboxRow> {
    ordered(statement, aggregate, unordered).filter(|row| is_unreleased(row))
}

/// The blocked aggregates, each with its first blocking row, in descending order of the row id.
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
        .map(|row| Numbered { id: row.id, effect: blocked_by(statement, unordered, row) })
        .collect()
}

/// The aggregates whose next event waits for a retry, in descending order of the row id of that event.
pub(super) fn waiting(
    statement: &Statement<'_>,
    unordered: &UnorderedTypes,
    on_failed: OnFailed,
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
            !of_aggregate(statement, &row.aggregate)
                .any(|other| is_next(other) && position(other) < position(row))
        })
        .filter(|row| {
            on_failed == OnFailed::Continue || blocking(statement, &row.aggregate, unordered).next().is_none()
        })
        .take(limited(limit))
        .map(|row| Numbered { id: row.id, effect: blocked_by(statement, unordered, row) })
        .collect()
}

fn blocked_by(statement: &Statement<'_>, unordered: &UnorderedTypes, row: &OutboxRow) -> Blocked {
    let is_waiting = |other: &&OutboxRow| other.status.is_pending() && position(other) > position(row);
    Blocked {
        aggregate: row.aggregate.clone(),
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        last_error: row.last_error.clone(),
        since: row.update_time,
        until: row.status.is_pending().then_some(row.next_retry_time).flatten(),
        held: ordered(statement, &row.aggregate, unordered).filter(is_waiting).fold(0, |held, _| held + 1),
    }
}
