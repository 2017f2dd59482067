//! Rows that were read for a group before its unit of work begins.
//!
//! **Invariant:** rows that were read ahead lead to the same writes as rows read in the unit of work. Every event of their
//! aggregates was unrecorded, and its new record is written only if it still has none; events that a consumer has settled
//! stay settled; and the group in progress has none of these aggregates.

use std::collections::BTreeSet;

use handover_events::AggregateRef;

use crate::ports::Unapplied;

/// The unsettled events of some aggregates, read before the unit of work of their group begins.
#[derive(Debug)]
pub(super) struct ReadAhead {
    aggregates: BTreeSet<AggregateRef>,
    unapplied: Vec<Unapplied>,
}

impl ReadAhead {
    pub(super) fn new(aggregates: BTreeSet<AggregateRef>, unapplied: Vec<Unapplied>) -> ReadAhead {
        ReadAhead { aggregates, unapplied }
    }

    /// The unsettled events of these aggregates, sorted by aggregate; `None` if not all of them were read.
    pub(super) fn of(self, aggregates: &[AggregateRef]) -> Option<Vec<Unapplied>> {
        if !aggregates.iter().all(|aggregate| self.aggregates.contains(aggregate)) {
            return None;
        }
        let wanted: BTreeSet<&AggregateRef> = aggregates.iter().collect();
        let mut unapplied = self.unapplied;
        unapplied.retain(|one| wanted.contains(&one.event.aggregate));
        Some(unapplied)
    }
}
