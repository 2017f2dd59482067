//! The order gate decides which events may be applied now and which have to wait. Pure
//! functions.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus};

use crate::lease_watch::is_in_the_future;
use crate::ports::{ConsumeRecord, Unapplied, UnorderedTypes};

/// Decision of the order gate about one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The event may be applied now.
    Apply,
    /// An earlier event has to be settled first, or another process applies the event. If the earlier event has failed, this is the
    /// time of its next attempt.
    Wait(Option<DateTime<Utc>>),
    /// The event is owned by another worker, or in backoff, until this time.
    Busy(DateTime<Utc>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step<'a> {
    pub(super) event: &'a Unapplied,
    pub(super) verdict: Verdict,
}

/// Decides which of the unsettled events of one aggregate, given in order, may be applied now.
///
/// An event of a type that `takes` does not accept is left to another process: it is not applied, and later ordered
/// events of the aggregate wait for it.
///
/// The last ordered event that is a target (delivered, or requested by the sweep) or WAITING ends the range to
/// process. Within the range, ordered events are applied in order, including events that were not delivered. After the
/// first busy event, targets wait and other events are skipped. Events that are FAILED in the outbox are skipped
/// unless they are targets. An unordered target does not wait and does not extend the range; other unordered events
/// are skipped. The event `own_attempt` is not busy, because its running attempt belongs to the caller.
pub(super) fn plan<'a>(
    unapplied: &'a [Unapplied],
    targets: &BTreeSet<EventId>,
    takes: impl Fn(&str) -> bool,
    unordered: &UnorderedTypes,
    own_attempt: Option<&EventId>,
    now: DateTime<Utc>,
) -> Vec<Step<'a>> {
    let is_target = |event: &Unapplied| targets.contains(&event.event.event_id);
    let is_waiting = |event: &Unapplied| {
        event.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Waiting)
    };
    let is_ordered = |event: &Unapplied| unordered.is_ordered(&event.event.event_type);
    let extends_range = |event: &Unapplied| is_ordered(event) && (is_target(event) || is_waiting(event));
    let range_end = unapplied.iter().rposition(extends_range).map_or(0, |last| last + 1);
    let mut steps = Vec::new();
    // Whether an earlier event is busy, and the time of its next attempt if it has failed.
    let mut blocked = None;
    for (position, event) in unapplied.iter().enumerate() {
        let target = is_target(event);
        let busy = if own_attempt == Some(&event.event.event_id) { None } else { busy_until(event, now) };
        let verdict = match busy {
            _ if !takes(&event.event.event_type) => Verdict::Wait(None),
            Some(until) => Verdict::Busy(until),
            None => Verdict::Apply,
        };
        if !is_ordered(event) {
            if target {
                steps.push(Step { event, verdict });
            }
            continue;
        }
        let is_failed = event.event.status == OutboxStatus::Failed;
        if position >= range_end || (is_failed && !target) {
            continue;
        }
        match verdict {
            Verdict::Apply => match blocked {
                None => steps.push(Step { event, verdict }),
                Some(until) if target => steps.push(Step { event, verdict: Verdict::Wait(until) }),
                Some(_) => {}
            },
            Verdict::Busy(_) | Verdict::Wait(_) => {
                // A running attempt may end at any time before its lease does.
                let is_backing_off = |record: &ConsumeRecord| record.status == ConsumeStatus::Failed;
                blocked.get_or_insert(busy.filter(|_| event.record.as_ref().is_some_and(is_backing_off)));
                if target {
                    steps.push(Step { event, verdict });
                }
            }
        }
    }
    steps
}

/// Time until which the caller may not process the event, because another worker's attempt is running or the event is
/// in backoff. A record whose `consume_time` is in the future is ignored: it was written by a clock that has since been
/// set back. If the worker that wrote the record is still running, its next conditional write fails.
fn busy_until(event: &Unapplied, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let record = event.record.as_ref().filter(|record| !is_in_the_future(record.consume_time, now))?;
    let until = match record.status {
        ConsumeStatus::Processing => record.lease_until,
        ConsumeStatus::Failed => record.next_retry_time,
        ConsumeStatus::Waiting | ConsumeStatus::Success | ConsumeStatus::Dead => None,
    };
    until.filter(|until| *until > now)
}
