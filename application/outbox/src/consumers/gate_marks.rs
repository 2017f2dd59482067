//! Where the order gate begins to search an aggregate with many events.
//!
//! A search from the first event reads all events of the aggregate, settled ones too. Therefore the next search begins at the
//! lowest unsettled position that the last one found.
//!
//! **Invariant:** the mark is a hint. An event below it that becomes unsettled later, such as a redriven one, is found by
//! the next full search: at its own delivery, and otherwise in a while.

use std::collections::HashMap;
use std::time::Duration;

use handover_events::AggregateRef;
use tokio::time::Instant;

use crate::ports::Unapplied;

/// An aggregate is searched separately from the others after this number of deliveries.
const MANY: u32 = 64;

/// Number of positions below the mark that are searched, too: the sequence of an application may deviate a little from the order
/// of the commits.
const OVERLAP: i64 = 64;

/// Number of aggregates of which the marks are kept, at least; at most twice as many.
const KEPT: usize = 4_096;

/// Shortest time between full searches of an aggregate.
const INTERVAL: Duration = Duration::from_secs(10);

/// Full searches take at most this share of the time.
const SHARE: u32 = 20;

/// Deliveries of one aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sought {
    pub(super) aggregate: AggregateRef,
    /// The lowest position among the events that are sought; the greatest number if they are settled.
    pub(super) lowest: i64,
    /// The highest position among the events that have to be among the result; the lowest number without any.
    pub(super) highest: i64,
    /// Number of deliveries that were not counted before.
    pub(super) events: u32,
}

impl Sought {
    /// An aggregate of which no delivery is known yet.
    pub(super) fn of(aggregate: AggregateRef) -> Sought {
        Sought { aggregate, lowest: i64::MAX, highest: i64::MIN, events: 0 }
    }

    /// Adds the delivery of an event at this position to those of a group.
    pub(super) fn add(&mut self, position: i64) {
        self.lowest = self.lowest.min(position);
        self.highest = self.highest.max(position);
        self.events = self.events.saturating_add(1);
    }

    /// The aggregate of one event, which is read separately.
    pub(super) fn around(event: &Unapplied, events: u32) -> Sought {
        let is_settled = event.record.as_ref().is_some_and(|record| record.status.is_settled());
        let lowest = if is_settled { i64::MAX } else { event.event.aggregate_seq };
        Sought { lowest, events, ..Sought::of(event.event.aggregate.clone()) }
    }
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    deliveries: u32,
    /// Every ordered event with a lower position was settled.
    from: i64,
    next_full: Instant,
}

/// The marks of one consumer.
#[derive(Debug, Default)]
pub(super) struct GateMarks {
    recent: HashMap<AggregateRef, Mark>,
    older: HashMap<AggregateRef, Mark>,
}

impl GateMarks {
    /// The lowest position to search, and whether the aggregate has many deliveries. One with few is searched from its first event.
    pub(super) fn begin(&mut self, sought: &Sought) -> (i64, bool) {
        let now = Instant::now();
        let known = self.recent.get(&sought.aggregate).or_else(|| self.older.get(&sought.aggregate)).copied();
        let mut mark = known.unwrap_or(Mark { deliveries: 0, from: i64::MIN, next_full: now });
        mark.deliveries = mark.deliveries.saturating_add(sought.events);
        if sought.lowest < mark.from.saturating_sub(OVERLAP) || mark.next_full <= now {
            mark.from = i64::MIN;
        }
        self.keep(&sought.aggregate, mark);
        let has_many = mark.deliveries >= MANY;
        (if has_many { mark.from.saturating_sub(OVERLAP) } else { i64::MIN }, has_many)
    }

    /// Moves the mark to the lowest unsettled position that a search found. The search began at `from` and took `elapsed`.
    pub(super) fn found(&mut self, aggregate: &AggregateRef, from: i64, lowest: i64, elapsed: Duration) {
        // A concurrent search may have moved the mark below the positions that this one has read.
        let has_read_from = |mark: &&mut Mark| mark.from.saturating_sub(OVERLAP) >= from;
        let Some(mark) = self.recent.get_mut(aggregate).filter(has_read_from) else { return };
        mark.from = lowest;
        if from == i64::MIN {
            mark.next_full = Instant::now() + INTERVAL.max(elapsed * SHARE);
        }
    }

    fn keep(&mut self, aggregate: &AggregateRef, mark: Mark) {
        if let Some(kept) = self.recent.get_mut(aggregate) {
            *kept = mark;
            return;
        }
        if self.recent.len() >= KEPT {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(aggregate.clone(), mark);
    }
}
