//! The order gate: what may be applied now, what has to wait (spec §1 "order of effects"). Pure.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus};

use crate::lease_watch::is_of_the_future;
use crate::mutants::{Mutant, planted};
use crate::ports::{Unapplied, UnorderedTypes};

/// What the gate says about one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Apply it now.
    Apply,
    /// An earlier one has to be settled first.
    Wait,
    /// It is another worker's, or backs off, until then.
    Busy(DateTime<Utc>),
}

/// One event and what the gate says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step<'a> {
    pub(super) event: &'a Unapplied,
    pub(super) verdict: Verdict,
}

/// Judges the unsettled events of one aggregate, given in order.
///
/// Looks as far as the last ordered event that is a target (delivered, or asked for by the sweep) or already WAITING. Up to
/// there everything is applied in order, also what was never delivered; from the first that cannot run now, targets wait.
/// An unordered target waits for nothing and pulls nothing.
/// FAILED ones of the outbox are passed over unless they are targets. `mine` is an event whose running attempt is the
/// caller's own.
pub(super) fn plan<'a>(
    unapplied: &'a [Unapplied],
    targets: &BTreeSet<EventId>,
    unordered: &UnorderedTypes,
    mine: Option<&EventId>,
    now: DateTime<Utc>,
) -> Vec<Step<'a>> {
    let is_target = |event: &Unapplied| targets.contains(&event.event.event_id);
    let is_waiting = |event: &Unapplied| {
        event.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Waiting)
    };
    let is_ordered =
        |event: &Unapplied| unordered.is_ordered(&event.event.event_type) && !planted(Mutant::NoGate);
    let pulls = |event: &Unapplied| is_ordered(event) && (is_target(event) || is_waiting(event));
    let horizon = unapplied.iter().rposition(pulls).map_or(0, |last| last + 1);
    let mut steps = Vec::new();
    let mut blocked = false;
    for (place, event) in unapplied.iter().enumerate() {
        let target = is_target(event);
        let busy = if mine == Some(&event.event.event_id) { None } else { busy_until(event, now) };
        if !is_ordered(event) {
            match (target, busy) {
                (true, Some(until)) => steps.push(Step { event, verdict: Verdict::Busy(until) }),
                (true, None) => steps.push(Step { event, verdict: Verdict::Apply }),
                (false, _) => {}
            }
            continue;
        }
        let is_given_up = event.event.status == OutboxStatus::Failed;
        if place >= horizon || (is_given_up && !target) {
            continue;
        }
        match busy {
            Some(until) => {
                blocked = true;
                if target {
                    steps.push(Step { event, verdict: Verdict::Busy(until) });
                }
            }
            None if !blocked => steps.push(Step { event, verdict: Verdict::Apply }),
            None if target => steps.push(Step { event, verdict: Verdict::Wait }),
            None => {}
        }
    }
    steps
}

/// Until when nobody may touch it: somebody's attempt runs, or its backoff does. A row of the future was written by a
/// clock that was set back since: its times say nothing, and whoever holds it is found by the fence when it commits.
fn busy_until(event: &Unapplied, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let record = event.record.as_ref().filter(|record| !is_of_the_future(record.consume_time, now))?;
    let until = match record.status {
        ConsumeStatus::Processing => record.lease_until,
        ConsumeStatus::Failed => record.next_retry_time,
        ConsumeStatus::Waiting | ConsumeStatus::Success | ConsumeStatus::Dead => None,
    };
    until.filter(|until| *until > now)
}
