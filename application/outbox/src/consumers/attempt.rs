//! Counts an attempt at one event, runs it, and records a failure.
//!
//! **Invariant:** a consume-log record is written only if it still has the state that was read. If another worker has
//! changed the record, the consume log is read again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, EventId, FailureKind, OutboxStatus, Retry};

use super::counted_attempt::{CountedAttempt, ExternalEffect, attempts_after};
use super::event_processor::{DeliveryFields, EventProcessor, ProcessError};
use super::gate_marks::Sought;
use super::outcome::SingleOutcome;
use crate::error_kind::ErrorKind;
use crate::event_line::event_line;
use crate::handler::HandlerError;
use crate::metrics::NOT_CONSUMED;
use crate::ports::{
    ConsumeRecord, Consumption, DeadLetter, Expected, MAX_DEAD_LETTER_REASON_BYTES, OutboxRow, StoreError,
    Unapplied, UnorderedTypes,
};
use crate::storable_text::storable;
use crate::summary::Happened;
use crate::transaction::with_tx;

/// Result of one attempt.
pub(super) enum AttemptOutcome {
    Applied,
    /// The consume log has changed since it was read, or an unsettled earlier event has appeared: read it again.
    Stale,
    Failed(Failure),
}

/// A failed attempt.
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// Kind of the error, which the breaker compares.
    pub(super) error: ErrorKind,
    pub(super) why: String,
}

impl Failure {
    fn of(kind: FailureKind, error: &HandlerError) -> AttemptOutcome {
        AttemptOutcome::Failed(Failure { kind, error: error.kind(), why: error.to_string() })
    }
}

/// Result of a write to the consume log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Written,
    /// Nothing was written, because the consume log has changed since it was read.
    Stale,
}

/// Attempts at single events of one consumer.
pub(super) struct Attempts<'p> {
    processor: &'p EventProcessor,
}

impl<'p> Attempts<'p> {
    pub(super) fn of(processor: &'p EventProcessor) -> Attempts<'p> {
        Attempts { processor }
    }

    /// Runs one attempt in a unit of work, which first checks again that the consume-log record has not changed and
    /// that the [order gate](super::gate) lets the event pass. An external handler runs before the unit of work, which only
    /// records its effect; then the order gate is not asked again.
    pub(super) async fn attempt(
        &self,
        step: &Unapplied,
        counted: &mut Option<CountedAttempt>,
    ) -> Result<AttemptOutcome, StoreError> {
        let started_at = self.processor.outbox.now();
        let effect = match self.external_effect(step, counted).await {
            Ok(effect) => effect,
            Err(error) => return outcome_of(ProcessError::Handler(error)),
        };
        let input = (self.processor.clone(), step.clone(), effect);
        let result = with_tx(&self.processor.tx, input, |unit, (processor, planned, effect), _| {
            Box::pin(async move {
                let earlier = processor.unapplied(unit.outbox(), &[Sought::around(planned, 0)]).await?;
                let same = |u: &&Unapplied| u.event.event_id == planned.event.event_id;
                let moved = earlier.iter().find(same).is_some_and(|now| now.record != planned.record);
                let is_early =
                    effect.is_none() && is_overtaking(&planned.event, &earlier, &processor.unordered);
                if moved || is_early {
                    return Err(ProcessError::Stale);
                }
                let limit = processor.settings.attempt_timeout;
                processor.apply(unit, &[planned], &BTreeMap::new(), limit, effect.clone()).await
            })
        })
        .await;
        match result {
            Ok(applied) => {
                let fields = DeliveryFields {
                    event: self.processor.fields(&step.event),
                    traceparent: step.event.metadata.traceparent.as_deref(),
                    elapsed: self.processor.outbox.now() - started_at,
                    since_commit: self.processor.outbox.now() - step.event.create_time,
                };
                if let Some(applied) = applied.first() {
                    self.processor.log_applied(&fields, applied);
                }
                Ok(AttemptOutcome::Applied)
            }
            Err(error) => outcome_of(error),
        }
    }

    /// Runs the external handler, unless this attempt has had its effect already; `None` if the consumer has no external
    /// handler.
    async fn external_effect(
        &self,
        step: &Unapplied,
        counted: &mut Option<CountedAttempt>,
    ) -> Result<Option<ExternalEffect>, HandlerError> {
        let Some(handler) = &self.processor.bound.external else { return Ok(None) };
        let known = counted.as_ref().filter(|counted| counted.is(step)).and_then(|it| it.effect.clone());
        if known.is_some() {
            return Ok(known);
        }
        let effect = self.processor.call(handler.as_ref(), step).await?;
        if let Some(counted) = counted.as_mut().filter(|counted| counted.is(step)) {
            counted.effect = Some(effect.clone());
        }
        Ok(Some(effect))
    }

    /// Counts an attempt before it runs. `None` if another worker changed the record first.
    pub(super) async fn count(
        &self,
        step: &Unapplied,
        now: DateTime<Utc>,
    ) -> Result<Option<CountedAttempt>, StoreError> {
        let attempts = step.record.as_ref().map_or(0, |record| record.attempts).saturating_add(1);
        let lease = TimeDelta::from_std(self.processor.settings.lease).unwrap_or_default();
        let record = self.processor.record(step, ConsumeStatus::Processing, attempts, now);
        let written = self.write(Consumption { lease_until: Some(now + lease), ..record }, None).await?;
        let counted = CountedAttempt::new(step.event.event_id.clone(), attempts);
        Ok((written == WriteOutcome::Written).then_some(counted))
    }

    /// Whether the event has no attempt left: the last allowed attempt was counted, but did not finish.
    pub(super) fn has_exhausted_attempts(&self, step: &Unapplied) -> bool {
        step.record.as_ref().is_some_and(|record| {
            record.status == ConsumeStatus::Processing
                && record.attempts >= self.processor.settings.retry.attempts()
        })
    }

    /// Records a failed attempt in a separate unit of work: FAILED with the time of the next attempt, or DEAD with a
    /// dead letter. `None` if another worker changed the record first. `took` is the duration of the attempt.
    pub(super) async fn fail(
        &self,
        step: &Unapplied,
        kind: FailureKind,
        why: &str,
        (took, now): (TimeDelta, DateTime<Utc>),
    ) -> Result<Option<SingleOutcome>, StoreError> {
        let attempts = attempts_after(step);
        let retry = match kind {
            FailureKind::Unrecoverable => Retry::GiveUp,
            FailureKind::Recoverable => self.processor.settings.retry.after(
                NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN),
                self.processor.outbox.random().next(),
            ),
        };
        // The error may quote a payload from an untrusted source, so it is limited to a text that every store accepts.
        let message =
            storable(&self.processor.outbox.texts.consume_failed(why), MAX_DEAD_LETTER_REASON_BYTES)
                .into_owned();
        let (status, due, end) = match retry {
            Retry::After(delay) => {
                let due = now + TimeDelta::from_std(delay).unwrap_or_default();
                (ConsumeStatus::Failed, Some(due), SingleOutcome::Failed(due))
            }
            Retry::GiveUp => (ConsumeStatus::Dead, None, SingleOutcome::Dead),
        };
        let record = Consumption {
            next_retry_time: due,
            error_message: Some(message.clone()),
            cost_ms: took.num_milliseconds(),
            ..self.processor.record(step, status, attempts, now)
        };
        let is_dead = status == ConsumeStatus::Dead;
        let dead_letter = is_dead.then(|| self.processor.dead_letter(&step.event, &message, now));
        let (queue, consumer) = (self.processor.queue(), self.processor.name());
        let written = self.write(record, dead_letter).await?;
        Ok(match written {
            WriteOutcome::Written => {
                if is_dead {
                    event_line!(ERROR, self.processor.fields(&step.event), code = "consumer.event.dead", queue, consumer,
                        attempts, error = %message, "[{consumer}] [ALERT] Event is dead");
                } else {
                    event_line!(WARN, self.processor.fields(&step.event), code = "consumer.event.attempt-failed", queue,
                        consumer, attempts, error = %message, "[{consumer}] attempt failed");
                }
                let happened = if is_dead { Happened::Failed } else { Happened::Retried };
                self.processor.outbox.summary().consumer(&self.processor.bound.name, happened);
                metrics::counter!(NOT_CONSUMED, "consumer" => self.processor.bound.name.clone()).increment(1);
                let figures = &self.processor.outbox.figures;
                figures.attempted(now, self.processor.name(), took.num_milliseconds());
                Some(end)
            }
            WriteOutcome::Stale => None,
        })
    }

    /// Records that an event waits for an earlier one, which cannot be applied before this time, if it is known: the sweep skips
    /// it until then.
    pub(super) async fn wait(
        &self,
        step: &Unapplied,
        until: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let attempts = step.record.as_ref().map_or(0, |record| record.attempts);
        let record = self.processor.record(step, ConsumeStatus::Waiting, attempts, now);
        // `Stale` means that another worker has already written a record of the event.
        let (WriteOutcome::Written | WriteOutcome::Stale) =
            self.write(Consumption { next_retry_time: until, ..record }, None).await?;
        Ok(())
    }

    /// Leaves an event to the sweep, because another transaction holds a lock that the event needs. This does not count
    /// as an attempt: if `counted` names an attempt at this event or at an earlier one, that attempt is subtracted from
    /// the number of attempts. Afterwards the consume log contains a record of the event, unless its outbox row was
    /// deleted.
    pub(super) async fn postpone(
        &self,
        event: &EventId,
        counted: Option<&CountedAttempt>,
    ) -> Result<(), StoreError> {
        let earlier = counted.map(|counted| &counted.event).filter(|counted| *counted != event);
        for event in earlier.into_iter().chain([event]) {
            let step = {
                let mut view = self.processor.outbox.view().await?;
                self.processor.target(view.outbox_view(), event).await?
            };
            let Some(step) = step else { continue };
            let now = self.processor.outbox.now();
            let is_backing_off = |record: &ConsumeRecord| record.next_retry_time.is_some_and(|due| due > now);
            let (status, attempts) = match step.record.as_ref() {
                None => (ConsumeStatus::Waiting, 0),
                Some(record) => match record.status {
                    // Another worker's attempt has failed: the sweep applies the event when its retry is due.
                    ConsumeStatus::Failed if is_backing_off(record) => continue,
                    ConsumeStatus::Processing if counted.is_some_and(|counted| counted.is(&step)) => {
                        (ConsumeStatus::Waiting, record.attempts.saturating_sub(1))
                    }
                    status @ (ConsumeStatus::Waiting | ConsumeStatus::Failed) => (status, record.attempts),
                    ConsumeStatus::Processing | ConsumeStatus::Success | ConsumeStatus::Dead => continue,
                },
            };
            let next_retry_time = step.record.as_ref().and_then(|record| record.next_retry_time);
            let record = self.processor.record(&step, status, attempts, now);
            // `Stale` means that another worker has already written a record of the event.
            let (WriteOutcome::Written | WriteOutcome::Stale) =
                self.write(Consumption { next_retry_time, ..record }, None).await?;
        }
        Ok(())
    }

    /// Takes back a failed attempt that was counted before the breaker opened, if nothing else has happened to the event
    /// since. The time of its next attempt does not change.
    pub(super) async fn take_back(&self, counted: &CountedAttempt) -> Result<(), StoreError> {
        let step = {
            let mut view = self.processor.outbox.view().await?;
            self.processor.target(view.outbox_view(), &counted.event).await?
        };
        let Some(step) = step else { return Ok(()) };
        let Some(record) = step.record.as_ref() else { return Ok(()) };
        if record.status != ConsumeStatus::Failed || record.attempts != counted.attempts {
            return Ok(());
        }
        let attempts = record.attempts.saturating_sub(1);
        let status = if attempts == 0 { ConsumeStatus::Waiting } else { ConsumeStatus::Failed };
        let next_retry_time = record.next_retry_time;
        let record = self.processor.record(&step, status, attempts, self.processor.outbox.now());
        // `Stale` means that another worker has begun the next attempt.
        let (WriteOutcome::Written | WriteOutcome::Stale) =
            self.write(Consumption { next_retry_time, ..record }, None).await?;
        Ok(())
    }

    /// Writes one consume-log record, and the dead letter of a DEAD event, if the record still has the state that was
    /// read.
    pub(super) async fn write(
        &self,
        record: Consumption,
        dead_letter: Option<DeadLetter>,
    ) -> Result<WriteOutcome, StoreError> {
        let input = (record, dead_letter);
        let result = with_tx(&self.processor.outbox.tx, input, |unit, (record, dead_letter), attempt| {
            Box::pin(async move {
                let current = unit.outbox().consumption(&record.consumer, &record.event_id).await?;
                let is_this = |current: &ConsumeRecord| {
                    (current.status, current.attempts, current.consume_time)
                        == (record.status, record.attempts, record.consume_time)
                };
                if attempt.may_be_committed() && current.as_ref().is_some_and(is_this) {
                    return Ok(());
                }
                let expected = current
                    .map_or(Expected::Absent, |current| Expected::At(current.status, current.attempts));
                if expected != record.expected {
                    return Err(ProcessError::Stale);
                }
                unit.outbox().record(std::slice::from_ref(record)).await?;
                match dead_letter {
                    Some(dead_letter) => Ok(unit.outbox().park(std::slice::from_ref(dead_letter)).await?),
                    None => Ok(()),
                }
            })
        })
        .await;
        match result {
            Ok(()) => Ok(WriteOutcome::Written),
            Err(ProcessError::Stale | ProcessError::Handler(_)) => Ok(WriteOutcome::Stale),
            Err(ProcessError::Store(error)) => Err(error),
        }
    }
}

/// What an error in a unit of work, or of an external handler, means for the attempt. An outage is no outcome.
fn outcome_of(error: ProcessError) -> Result<AttemptOutcome, StoreError> {
    match error {
        ProcessError::Stale => Ok(AttemptOutcome::Stale),
        ProcessError::Handler(error @ HandlerError::Recoverable(_)) => {
            Ok(Failure::of(FailureKind::Recoverable, &error))
        }
        ProcessError::Handler(error @ HandlerError::Unrecoverable(_)) => {
            Ok(Failure::of(FailureKind::Unrecoverable, &error))
        }
        // The conflict is not in the consume log: the handler's own writes conflicted in every attempt at the unit of
        // work. This counts as a failed attempt.
        ProcessError::Handler(error @ HandlerError::Store(StoreError::Conflict { .. })) => {
            Ok(Failure::of(FailureKind::Recoverable, &error))
        }
        ProcessError::Store(error) | ProcessError::Handler(HandlerError::Store(error)) => match error {
            StoreError::Transient(_) | StoreError::Unavailable(_) | StoreError::CommitUnknown(_) => {
                Err(error)
            }
            StoreError::Conflict { .. } => Ok(AttemptOutcome::Stale),
            StoreError::Corrupt { .. } | StoreError::IdInUse { .. } | StoreError::Backend(_) => {
                Ok(Failure::of(FailureKind::Recoverable, &HandlerError::Store(error)))
            }
        },
    }
}

/// Whether the event would be applied before an unsettled earlier event of its aggregate.
fn is_overtaking(event: &OutboxRow, unapplied: &[Unapplied], unordered: &UnorderedTypes) -> bool {
    let position = (event.aggregate_seq, event.id);
    unordered.is_ordered(&event.event_type)
        && unapplied.iter().any(|u| {
            unordered.is_ordered(&u.event.event_type)
                && (u.event.aggregate_seq, u.event.id) < position
                && u.event.status != OutboxStatus::Failed
        })
}
