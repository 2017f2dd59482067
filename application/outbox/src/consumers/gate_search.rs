//! Reads the unsettled events of aggregates for the order gate.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use handover_events::OutboxStatus;
use tokio::time::Instant;

use super::event_processor::EventProcessor;
use super::gate_marks::{GateMarks, Sought};
use crate::ports::{ConsumeQueries, StoreError, Unapplied};

/// The order gate reads this number of unsettled events of an aggregate besides twice the number of those that are delivered.
const SPARE_EVENTS: u32 = 128;

impl EventProcessor {
    /// Unsettled events of these aggregates, without those appended before the consumer subscribed. Of an aggregate with many of
    /// them, only the first ones are returned, with at least one that later ones wait for.
    pub(super) async fn unapplied<V: ConsumeQueries + ?Sized>(
        &self,
        view: &mut V,
        sought: &[Sought],
    ) -> Result<Vec<Unapplied>, StoreError> {
        let (name, types) = (self.name(), self.bound.event_types());
        let mut separate = Vec::new();
        let mut together = Vec::new();
        for it in sought {
            let (from, has_many) = self.marks().begin(it);
            if has_many || sought.len() == 1 {
                separate.push((it, from));
            } else {
                together.push(it.aggregate.clone());
            }
        }
        let mut found = Vec::new();
        let mut incomplete = Vec::new();
        if !separate.is_empty() {
            let events = sought.iter().map(|it| it.events).max().unwrap_or(0);
            let limit = events.saturating_mul(2).saturating_add(SPARE_EVENTS);
            let aggregates: Vec<_> =
                separate.iter().map(|(it, from)| (it.aggregate.clone(), *from)).collect();
            let begun = Instant::now();
            found = view.unapplied_from(name, &types, self.after_id, &aggregates, limit).await?;
            incomplete = self.moved_marks(&found, &separate, limit, begun.elapsed());
            found.retain(|it| !incomplete.iter().any(|(sought, _)| sought.aggregate == it.event.aggregate));
            together.extend(incomplete.iter().map(|(it, _)| it.aggregate.clone()));
        }
        if !together.is_empty() {
            let begun = Instant::now();
            let all = view.unapplied(name, &types, self.after_id, &together).await?;
            self.moved_marks(&all, &incomplete, u32::MAX, begun.elapsed());
            found.extend(all);
        }
        Ok(found)
    }

    /// Moves the marks of these aggregates after a search that began at the positions beside them. Returns those that have to be read
    /// whole, because the search found too few events: only such that no other waits for, or not all that were delivered.
    fn moved_marks<'s>(
        &self,
        found: &[Unapplied],
        searched: &[(&'s Sought, i64)],
        limit: u32,
        elapsed: Duration,
    ) -> Vec<(&'s Sought, i64)> {
        let is_ordered = |event_type: &str| self.unordered.is_ordered(event_type);
        let waits = self.bound.event_types().into_iter().any(is_ordered);
        let is_awaited =
            |it: &&Unapplied| is_ordered(&it.event.event_type) && it.event.status != OutboxStatus::Failed;
        let by_aggregate: BTreeMap<_, _> = by_aggregate(found)
            .filter_map(|unapplied| Some((&unapplied.first()?.event.aggregate, unapplied)))
            .collect();
        let mut incomplete = Vec::new();
        for (sought, from) in searched {
            let unapplied = by_aggregate.get(&sought.aggregate).copied().unwrap_or_default();
            let awaited = unapplied.iter().find(is_awaited);
            let is_full = unapplied.len() >= limit as usize;
            let ends_before = |last: &Unapplied| last.event.aggregate_seq < sought.highest;
            if is_full && waits && (awaited.is_none() || unapplied.last().is_some_and(ends_before)) {
                incomplete.push((*sought, i64::MIN));
            } else if let Some(lowest) = awaited.or(unapplied.first()) {
                self.marks().found(&sought.aggregate, *from, lowest.event.aggregate_seq, elapsed);
            }
        }
        incomplete
    }

    fn marks(&self) -> MutexGuard<'_, GateMarks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits a list that is sorted by aggregate.
pub(super) fn by_aggregate(unapplied: &[Unapplied]) -> impl Iterator<Item = &[Unapplied]> {
    unapplied.chunk_by(|left, right| left.event.aggregate == right.event.aggregate)
}
