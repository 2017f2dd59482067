//! Processes events one by one, counts attempts and parks dead letters. Used for deliveries that a group cannot
//! process.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, EventId, FailureKind};
use tokio::time::Instant;

use super::attempt::{AttemptOutcome, Attempts, Failure};
use super::breaker::{Decision, Permit};
use super::counted_attempt::{CountedAttempt, attempts_after};
use super::event_processor::EventProcessor;
use super::gate::{Verdict, plan};
use super::gate_marks::Sought;
use super::outcome::SingleOutcome;
use crate::history;
use crate::ports::{ConsumeRecord, OutboxRow, StoreError, Unapplied};
use crate::transaction::with_tx;

/// Whether an attempt is counted before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountFirst {
    /// The event was, or may have been, delivered before. It, an event that runs before it, or one that waits for it, may crash
    /// the process.
    Yes,
    /// First delivery.
    No,
}

/// Processes the events of one consumer one by one.
pub(super) struct SingleEvents<'p> {
    processor: &'p EventProcessor,
    attempts: Attempts<'p>,
    /// End of the time for events that wait for a settled one.
    until: Option<Instant>,
}

impl<'p> SingleEvents<'p> {
    pub(super) fn of(processor: &'p EventProcessor) -> SingleEvents<'p> {
        SingleEvents { processor, attempts: Attempts::of(processor), until: None }
    }

    /// As [`SingleEvents::of`], for a caller that has to apply events of other aggregates afterwards.
    pub(super) fn until(processor: &'p EventProcessor, until: Instant) -> SingleEvents<'p> {
        SingleEvents { until: Some(until), ..SingleEvents::of(processor) }
    }

    /// Settles the earlier events that must be applied first, then this event, then the events that wait for it, each
    /// in a separate unit of work. A later sweep applies those that still wait when the time is over or the process stops.
    ///
    /// An error, such as an outage of the database, does not count as an attempt. An attempt that was counted before it
    /// ran is in `counted`: call again later with the same `counted`.
    pub(super) async fn apply(
        &self,
        event: &EventId,
        count: CountFirst,
        counted: &mut Option<CountedAttempt>,
    ) -> Result<SingleOutcome, StoreError> {
        let mut worked = false;
        let mut deliveries = 1;
        loop {
            let mut list = self.load_aggregate(event, std::mem::take(&mut deliveries)).await?;
            let now = self.processor.outbox.now();
            let Some(target) = list.iter().find(|u| u.event.event_id == *event) else {
                // The row was deleted after the message was checked: nothing is left to apply.
                return Ok(SingleOutcome::Done);
            };
            // A message of a relay that does not know the queue, or of another program, enters it nevertheless.
            if target.record.is_none() && target.event.idle_consumers.contains(self.processor.name()) {
                return Ok(SingleOutcome::Done);
            }
            let end = settled_outcome(target);
            if end == Some(SingleOutcome::Done) && !worked {
                self.record_duplicate(&target.event, now).await?;
            }
            worked = true;
            if let Some(end) = end
                && (self.until.is_some_and(|until| Instant::now() >= until)
                    || self.processor.outbox.stopping().is_cancelled())
            {
                return Ok(end);
            }
            let takes = |event_type: &str| self.processor.bound.takes(event_type);
            if end.is_none()
                && !takes(&target.event.event_type)
                && !self.is_left_to_other_process(&target.event).await?
            {
                let why = self.unsupported(target);
                self.attempts
                    .fail(target, FailureKind::Unrecoverable, &why, (TimeDelta::zero(), now))
                    .await?;
                continue;
            }
            // After the target is settled, continue with the events that wait for it.
            list.retain(|u| end.is_none() || u.event.event_id != *event);
            let own_attempt = counted.as_ref().filter(|counted| list.iter().any(|u| counted.is(u)));
            let own_attempt = own_attempt.map(|counted| &counted.event);
            let targets = end.is_none().then_some(event).into_iter();
            let targets = targets.chain(own_attempt).cloned().collect();
            let steps = plan(&list, &targets, takes, &self.processor.unordered, own_attempt, now);
            let Some(step) = steps.first() else { return Ok(end.unwrap_or(SingleOutcome::Done)) };
            match step.verdict {
                Verdict::Busy(until) => return Ok(SingleOutcome::Busy(until)),
                Verdict::Wait(until) => {
                    let is_recorded = |record: &ConsumeRecord| {
                        record.status != ConsumeStatus::Waiting || record.next_retry_time >= until
                    };
                    if step.event.record.as_ref().is_some_and(is_recorded) {
                        let row = &step.event.event;
                        self.processor.log_left(self.processor.fields(row));
                        return Ok(SingleOutcome::Done);
                    }
                    // The loop calls the order gate again after this write: the earlier event may have been settled
                    // before the WAITING record became visible, and then nothing else would apply this event.
                    self.attempts.wait(step.event, until, now).await?;
                }
                Verdict::Apply => {
                    let is_target = step.event.event.event_id == *event;
                    let failed = self.run_step(step.event, count, counted, now).await?;
                    if let Some(paused @ SingleOutcome::Paused(_)) = failed {
                        return Ok(paused);
                    }
                    if is_target && let Some(SingleOutcome::Failed(due)) = failed {
                        return Ok(SingleOutcome::Failed(due));
                    }
                }
            }
        }
    }

    /// Whether another process has registered the type of the event for this consumer.
    async fn is_left_to_other_process(&self, event: &OutboxRow) -> Result<bool, StoreError> {
        let mut view = self.processor.outbox.view().await?;
        let foreign_types = self.processor.foreign_types(view.outbox_view()).await?;
        Ok(foreign_types.contains(&event.event_type))
    }

    /// Error of an event whose type no running process has registered for this consumer.
    fn unsupported(&self, step: &Unapplied) -> String {
        let text = self.processor.outbox.texts.unsupported_type(&step.event.event_type);
        if step.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Waiting) {
            let name = self.processor.name();
            format!(
                "{text}; the processes that applied events of this type for {name} have ended: start one, then replay \
                 the dead letter"
            )
        } else {
            text
        }
    }

    /// Records a delivery of an event that was already applied.
    async fn record_duplicate(&self, row: &OutboxRow, now: DateTime<Utc>) -> Result<(), StoreError> {
        let entry = self.processor.duplicate_entry(row, now);
        with_tx(&self.processor.outbox.tx, entry, |unit, entry, attempt| {
            Box::pin(async move { history::add(unit.outbox(), attempt, vec![entry.clone()]).await })
        })
        .await?;
        self.processor.log_duplicate(self.processor.fields(row));
        Ok(())
    }

    /// Performs one step for an event that may run now: marks it DEAD, counts its attempt, or runs the attempt. Returns
    /// the outcome of a failure, if the step failed.
    async fn run_step(
        &self,
        step: &Unapplied,
        count: CountFirst,
        counted: &mut Option<CountedAttempt>,
        now: DateTime<Utc>,
    ) -> Result<Option<SingleOutcome>, StoreError> {
        let is_mine = counted.as_ref().is_some_and(|counted| counted.is(step));
        if !is_mine && self.attempts.has_exhausted_attempts(step) {
            let why = "the process ended during the last allowed attempt";
            return self.attempts.fail(step, FailureKind::Unrecoverable, why, (TimeDelta::zero(), now)).await;
        }
        let has_effect = is_mine && counted.as_ref().is_some_and(|counted| counted.effect.is_some());
        // An effect outside the database that an attempt already had is only recorded.
        let permit = if has_effect { Permit::Closed } else { self.processor.breaker.permit() };
        if let Permit::Wait(wait) = permit {
            return self.pause(step, counted, wait).await.map(Some);
        }
        let is_try = matches!(permit, Permit::Try { .. });
        // A try is not counted before it runs: if it ends the process, the breaker is closed after the restart. The attempt
        // of an external handler is always counted first, so that no other worker has the same effect at the same time.
        let is_external = self.processor.bound.external.is_some();
        if !is_mine && (is_processing(step) || is_external || (count == CountFirst::Yes && !is_try)) {
            *counted = self.attempts.count(step, now).await?;
            return Ok(None);
        }
        let began = self.processor.outbox.now();
        let outcome = self.attempts.attempt(step, counted).await;
        let has_effect = counted.as_ref().is_some_and(|counted| counted.effect.is_some());
        let is_stopping = self.processor.outbox.stopping().is_cancelled();
        // An outage that ends the attempts at a commit of unknown outcome is not in its error.
        let is_outage =
            |error: &StoreError| matches!(error, StoreError::Unavailable(_) | StoreError::CommitUnknown(_));
        if !has_effect && outcome.as_ref().is_err_and(|error| is_stopping || is_outage(error)) {
            // The consume log may be writable, for example if only the handler's own connections fail: the lease would end
            // during the outage, and other workers would count further attempts. An attempt that the end of the process
            // interrupted has not failed.
            self.take_back_counted(step, counted).await?;
        }
        match outcome? {
            AttemptOutcome::Applied => {
                self.processor.breaker.succeeded();
                Ok(None)
            }
            AttemptOutcome::Stale => Ok(None),
            AttemptOutcome::Failed(failure) => self.failed(step, counted, &failure, began, is_try).await,
        }
    }

    /// Counts a failed attempt, unless the breaker attributes the failure to the system.
    async fn failed(
        &self,
        step: &Unapplied,
        counted: &mut Option<CountedAttempt>,
        failure: &Failure,
        began: DateTime<Utc>,
        is_try: bool,
    ) -> Result<Option<SingleOutcome>, StoreError> {
        let now = self.processor.outbox.now();
        let took = now - began;
        if failure.kind == FailureKind::Unrecoverable {
            return self.attempts.fail(step, failure.kind, &failure.why, (took, now)).await;
        }
        let attempt = CountedAttempt::new(step.event.event_id.clone(), attempts_after(step));
        let error = (&failure.error, failure.why.as_str());
        match self.processor.breaker.failed(&step.event.aggregate, attempt.clone(), error, is_try) {
            Decision::Wait(wait, earlier) => {
                for attempt in &earlier {
                    self.attempts.take_back(attempt).await?;
                }
                self.pause(step, counted, wait).await.map(Some)
            }
            Decision::Count => {
                let outcome = self.attempts.fail(step, failure.kind, &failure.why, (took, now)).await?;
                if !is_try && self.processor.breaker.takes_back(&attempt) {
                    self.attempts.take_back(&attempt).await?;
                }
                Ok(outcome)
            }
        }
    }

    /// Leaves an event until the breaker allows a try.
    async fn pause(
        &self,
        step: &Unapplied,
        counted: &mut Option<CountedAttempt>,
        wait: Duration,
    ) -> Result<SingleOutcome, StoreError> {
        self.take_back_counted(step, counted).await?;
        Ok(SingleOutcome::Paused(wait))
    }

    /// Takes back the attempt at this event if it was counted before it ran: its lease would end while the event waits.
    async fn take_back_counted(
        &self,
        step: &Unapplied,
        counted: &mut Option<CountedAttempt>,
    ) -> Result<(), StoreError> {
        if counted.as_ref().is_some_and(|counted| counted.is(step)) {
            self.attempts.postpone(&step.event.event_id, counted.as_ref()).await?;
            *counted = None;
        }
        Ok(())
    }

    /// Returns, in order, the unsettled events of the target's aggregate, and the target even if it is settled.
    async fn load_aggregate(&self, event: &EventId, deliveries: u32) -> Result<Vec<Unapplied>, StoreError> {
        let mut view = self.processor.outbox.view().await?;
        let Some(target) = self.processor.target(view.outbox_view(), event).await? else {
            return Ok(Vec::new());
        };
        let mut list =
            self.processor.unapplied(view.outbox_view(), &[Sought::around(&target, deliveries)]).await?;
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

/// Outcome of an event that is settled.
fn settled_outcome(event: &Unapplied) -> Option<SingleOutcome> {
    match event.record.as_ref()?.status {
        ConsumeStatus::Success => Some(SingleOutcome::Done),
        ConsumeStatus::Dead => Some(SingleOutcome::Dead),
        ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => None,
    }
}

fn is_processing(step: &Unapplied) -> bool {
    step.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Processing)
}
