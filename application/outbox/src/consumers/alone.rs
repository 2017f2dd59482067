//! One event at a time: the careful way, on which attempts are counted, backoffs waited for and the dead parked.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, FailureKind};

use super::attempt::Attempted;
use super::gate::{Verdict, plan};
use super::inbox::Inbox;
use crate::mutants::{Mutant, planted};
use crate::ports::{OutboxRow, StoreError, Unapplied};
use crate::{history, texts, with_tx};

/// How one event ended, for whoever holds its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AloneEnd {
    /// Applied just now, recorded as WAITING, or a duplicate: ack.
    Done,
    /// An attempt failed; the next is due then: wait, then requeue.
    Failed(DateTime<Utc>),
    /// Another worker's, or backing off elsewhere, until then: look again.
    Busy(DateTime<Utc>),
    /// Dead: dead-letter it.
    Dead,
}

/// Whether an attempt is counted before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountFirst {
    /// It was delivered before, or nobody knows: it, or an earlier one that runs first, may be what kills the process.
    Yes,
    /// A first delivery.
    No,
}

/// An attempt that was counted before it ran: the caller's own for as long as the log still says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) event: EventId,
    pub(super) attempts: u32,
}

impl Counted {
    pub(super) fn is(&self, step: &Unapplied) -> bool {
        step.event.event_id == self.event
            && step.record.as_ref().is_some_and(|record| {
                record.status == ConsumeStatus::Processing && record.attempts == self.attempts
            })
    }
}

impl Inbox {
    /// Settles one event, before it what the gate asks for and after it what waits for it, each in a unit of its own.
    ///
    /// An error is an outage of the store: nothing was counted beyond what `counted` tells, try again later with it.
    pub(super) async fn apply_alone(
        &self,
        event: &EventId,
        count: CountFirst,
        counted: &mut Option<Counted>,
    ) -> Result<AloneEnd, StoreError> {
        let mut worked = false;
        loop {
            let (mut list, now) = (self.around(event).await?, self.outbox.now());
            let Some(target) = list.iter().find(|u| u.event.event_id == *event) else {
                // Gone from the outbox between two looks: archived, so applied.
                return Ok(AloneEnd::Done);
            };
            let end = match target.record.as_ref().map(|record| record.status) {
                Some(ConsumeStatus::Success) if !worked && planted(Mutant::NoDedupe) => None,
                Some(ConsumeStatus::Success) => Some(AloneEnd::Done),
                Some(ConsumeStatus::Dead) => Some(AloneEnd::Dead),
                Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) | None => {
                    None
                }
            };
            if end == Some(AloneEnd::Done) && !worked {
                self.ignore(&target.event, now).await?;
            }
            worked = true;
            let takes = self.bound.takes.contains(&target.event.event_type.as_str());
            if end.is_none() && !takes {
                let why = format!("{}: {}", texts::UNSUPPORTED_TYPE, target.event.event_type);
                self.fail(target, FailureKind::Unrecoverable, &why, now).await?;
                continue;
            }
            let targets: BTreeSet<EventId> = end.is_none().then(|| event.clone()).into_iter().collect();
            // Once the target is settled, what waits for it is next.
            list.retain(|u| end.is_none() || u.event.event_id != *event);
            let mine = counted.as_ref().filter(|counted| list.iter().any(|u| counted.is(u)));
            let unordered = self.outbox.registry.unordered();
            let steps = plan(&list, &targets, unordered, mine.map(|counted| &counted.event), now);
            let Some(step) = steps.first() else { return Ok(end.unwrap_or(AloneEnd::Done)) };
            match step.verdict {
                Verdict::Busy(until) => return Ok(AloneEnd::Busy(until)),
                Verdict::Wait => {
                    if step.event.record.is_some() {
                        return Ok(AloneEnd::Done);
                    }
                    // And look again: the earlier one may have been settled before anybody could see this one wait.
                    let waiting = self.record(step.event, ConsumeStatus::Waiting, 0, now);
                    self.write(waiting, None).await?;
                }
                Verdict::Apply => {
                    let is_target = step.event.event.event_id == *event;
                    // Until the target is settled, what runs is the target or what it waits for.
                    let count = if end.is_none() { count } else { CountFirst::No };
                    let failed = self.take_step(step.event, count, counted, now).await?;
                    let is_over = is_target || planted(Mutant::AckWhatFailed);
                    if is_over && let Some(AloneEnd::Failed(due)) = failed {
                        return Ok(AloneEnd::Failed(due));
                    }
                }
            }
        }
    }

    /// Ignores a delivery of an event that was applied before.
    async fn ignore(&self, row: &OutboxRow, now: DateTime<Utc>) -> Result<(), StoreError> {
        let entry = self.duplicate(row, now);
        with_tx(&self.outbox.tx, move |unit, attempt| {
            let entries = vec![entry.clone()];
            Box::pin(async move { history::add(unit.outbox(), attempt, entries).await })
        })
        .await?;
        self.log_duplicate(&row.event_id, row.trace_id());
        Ok(())
    }

    /// One step towards settling an event that may run now: gives it up, counts its attempt, or makes it. Tells how it
    /// failed, if it did.
    async fn take_step(
        &self,
        step: &Unapplied,
        count: CountFirst,
        counted: &mut Option<Counted>,
        now: DateTime<Utc>,
    ) -> Result<Option<AloneEnd>, StoreError> {
        let is_mine = counted.as_ref().is_some_and(|counted| counted.is(step));
        if !is_mine && self.is_spent(step) {
            let why = "every attempt ended with the end of its process";
            return self.fail(step, FailureKind::Unrecoverable, why, now).await;
        }
        if !is_mine && (is_processing(step) || count == CountFirst::Yes) {
            *counted = self.count(step, now).await?;
            return Ok(None);
        }
        match self.attempt(step).await? {
            Attempted::Applied | Attempted::Moved => Ok(None),
            Attempted::Failed(kind, why) => self.fail(step, kind, &why, self.outbox.now()).await,
        }
    }

    /// The unsettled events of the target's aggregate in order, the target among them whatever its state.
    async fn around(&self, event: &EventId) -> Result<Vec<Unapplied>, StoreError> {
        let mut view = self.outbox.view().await?;
        let Some(target) = self.target(view.outbox_view(), event).await? else { return Ok(Vec::new()) };
        let mut list =
            self.unapplied(view.outbox_view(), std::slice::from_ref(&target.event.aggregate)).await?;
        match list.iter_mut().find(|u| u.event.event_id == *event) {
            Some(same) => *same = target,
            None => {
                list.push(target);
                list.sort_by_key(|u| (u.event.aggregate_seq, u.event.id));
            }
        }
        Ok(list)
    }
}

fn is_processing(step: &Unapplied) -> bool {
    step.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Processing)
}
