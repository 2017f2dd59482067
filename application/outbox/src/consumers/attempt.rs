//! One attempt at one event: counted, made, and written down if it failed.
//!
//! **Invariant:** every write to the log asks for what was read; whoever is slower looks again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, EventId, FailureKind, OutboxStatus, Retry};
use tracing::{error, warn};

use super::HandlerError;
use super::alone::{AloneEnd, Counted};
use super::inbox::{Inbox, InboxError, Told};
use crate::counted::NOT_CONSUMED;
use crate::foreign::storable;
use crate::mutants::{Mutant, planted};
use crate::ports::{
    ConsumeRecord, Consumption, DeadLetter, Expected, MAX_LETTER_REASON_BYTES, OutboxRow, StoreError,
    Unapplied, UnorderedTypes,
};
use crate::{texts, with_tx};

/// What became of one attempt.
pub(super) enum Attempted {
    Applied,
    /// Somebody else was faster: look again.
    Moved,
    Failed(FailureKind, String),
}

/// What became of a write to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Yes,
    /// The log no longer holds what was read.
    Moved,
}

impl Inbox {
    /// Runs one attempt in its unit. What was read before is asked for again by the log's conditional write, and the
    /// gate once more inside the unit.
    pub(super) async fn attempt(&self, step: &Unapplied) -> Result<Attempted, StoreError> {
        let (inbox, wanted) = (self.clone(), Arc::new(step.clone()));
        let begun = self.outbox.now();
        let result = with_tx(&self.tx, move |unit, _| {
            let (inbox, wanted) = (inbox.clone(), Arc::clone(&wanted));
            Box::pin(async move {
                let earlier =
                    inbox.unapplied(unit.outbox(), std::slice::from_ref(&wanted.event.aggregate)).await?;
                let same = |u: &&Unapplied| u.event.event_id == wanted.event.event_id;
                let moved = earlier.iter().find(same).is_some_and(|now| now.record != wanted.record);
                if moved || is_overtaking(&wanted.event, &earlier, inbox.outbox.registry.unordered()) {
                    return Err(InboxError::Moved);
                }
                inbox.apply(unit, &[&wanted], &BTreeMap::new(), inbox.settings.attempt_timeout).await
            })
        })
        .await;
        match result {
            Ok(applied) => {
                let event = &step.event;
                let told = Told {
                    id: &event.event_id,
                    kind: &event.event_type,
                    trace: event.trace_id(),
                    traceparent: event.metadata.traceparent.as_deref(),
                    took: self.outbox.now() - begun,
                    aggregate_type: &event.aggregate.kind,
                    aggregate: event.aggregate.id,
                };
                if let Some(applied) = applied.first() {
                    self.tell(&told, applied);
                }
                Ok(Attempted::Applied)
            }
            Err(InboxError::Moved) => Ok(Attempted::Moved),
            Err(InboxError::Handler(HandlerError::Recoverable(why))) => {
                Ok(Attempted::Failed(FailureKind::Recoverable, why))
            }
            Err(InboxError::Handler(HandlerError::Unrecoverable(why))) => {
                Ok(Attempted::Failed(FailureKind::Unrecoverable, why))
            }
            // Not of the log: the handler's own writes clash, and did so at every attempt of the unit.
            Err(InboxError::Handler(HandlerError::Store(error @ StoreError::Conflict { .. }))) => {
                Ok(Attempted::Failed(FailureKind::Recoverable, error.to_string()))
            }
            Err(InboxError::Store(error) | InboxError::Handler(HandlerError::Store(error))) => match error {
                StoreError::Transient(_) | StoreError::Unavailable(_) | StoreError::CommitUnknown(_) => {
                    Err(error)
                }
                StoreError::Conflict { .. } => Ok(Attempted::Moved),
                StoreError::Corrupt { .. } | StoreError::Backend(_) => {
                    Ok(Attempted::Failed(FailureKind::Recoverable, error.to_string()))
                }
            },
        }
    }

    /// Counts an attempt before it runs. `None`: somebody else was faster.
    pub(super) async fn count(
        &self,
        step: &Unapplied,
        now: DateTime<Utc>,
    ) -> Result<Option<Counted>, StoreError> {
        let attempts = step.record.as_ref().map_or(0, |record| record.attempts).saturating_add(1);
        let lease = TimeDelta::from_std(self.settings.lease).unwrap_or_default();
        let record = self.record(step, ConsumeStatus::Processing, attempts, now);
        let written = self.write(Consumption { lease_until: Some(now + lease), ..record }, None).await?;
        let counted = Counted { event: step.event.event_id.clone(), attempts };
        Ok((written == Written::Yes).then_some(counted))
    }

    /// Whether every attempt it has was counted and none ended.
    pub(super) fn is_spent(&self, step: &Unapplied) -> bool {
        step.record.as_ref().is_some_and(|record| {
            record.status == ConsumeStatus::Processing && record.attempts >= self.settings.retry.attempts()
        })
    }

    /// Writes a failed attempt down in its own unit: FAILED with the next attempt's time, or DEAD with a dead letter.
    /// `None`: somebody else settled it meanwhile.
    pub(super) async fn fail(
        &self,
        step: &Unapplied,
        kind: FailureKind,
        why: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<AloneEnd>, StoreError> {
        let attempts = match step.record.as_ref() {
            Some(ConsumeRecord { status: ConsumeStatus::Processing, attempts, .. }) => *attempts,
            Some(record) => record.attempts.saturating_add(1),
            None => 1,
        };
        let attempts = if attempts > 1 && planted(Mutant::AttemptsNotCounted) { 1 } else { attempts };
        let retry = match kind {
            FailureKind::Unrecoverable => Retry::GiveUp,
            FailureKind::Recoverable => self
                .settings
                .retry
                .after(NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN), self.outbox.tx.chance.next()),
        };
        // It may quote a payload that others wrote.
        let message = storable(&with_prefix(why), MAX_LETTER_REASON_BYTES).into_owned();
        let (status, due, end) = match retry {
            Retry::After(_) if planted(Mutant::ConsumerBackoffIgnored) => {
                (ConsumeStatus::Failed, Some(now), AloneEnd::Failed(now))
            }
            Retry::After(delay) => {
                let due = now + TimeDelta::from_std(delay).unwrap_or_default();
                (ConsumeStatus::Failed, Some(due), AloneEnd::Failed(due))
            }
            Retry::GiveUp => (ConsumeStatus::Dead, None, AloneEnd::Dead),
        };
        let record = Consumption {
            next_retry_time: due,
            error_message: Some(message.clone()),
            ..self.record(step, status, attempts, now)
        };
        let is_parked = status == ConsumeStatus::Dead && !planted(Mutant::DeadWithoutLetter);
        let letter = is_parked.then(|| self.dead_letter(&step.event, &message, now));
        let (event, trace) = (&step.event.event_id, step.event.trace_id());
        if status == ConsumeStatus::Failed && planted(Mutant::AckWhatFailed) {
            return Ok(Some(end));
        }
        let is_dead = status == ConsumeStatus::Dead;
        let written = self.write(record, letter).await?;
        Ok(match written {
            Written::Yes => {
                if is_dead {
                    error!(eventId = %event, traceId = trace, queue = self.queue(), consumer = self.name(), attempts,
                        error = %message, "[{}] [ALERT] Event is dead", self.name());
                } else {
                    warn!(eventId = %event, traceId = trace, queue = self.queue(), consumer = self.name(), attempts,
                        error = %message, "[{}] an attempt failed", self.name());
                }
                metrics::counter!(NOT_CONSUMED, "consumer" => self.name()).increment(1);
                Some(end)
            }
            Written::Moved => None,
        })
    }

    /// Leaves an event to the sweep, as somebody else keeps a lock that it needs. That is no attempt: one that was counted
    /// before it ran is taken back. Whatever happens meanwhile, the log knows of the event.
    pub(super) async fn postpone(
        &self,
        event: &EventId,
        counted: Option<&Counted>,
    ) -> Result<(), StoreError> {
        let earlier = counted.map(|counted| &counted.event).filter(|counted| *counted != event);
        for event in earlier.into_iter().chain([event]) {
            let step = {
                let mut view = self.outbox.view().await?;
                self.target(view.outbox_view(), event).await?
            };
            let Some(step) = step else { continue };
            let now = self.outbox.now();
            let is_resting = |record: &ConsumeRecord| record.next_retry_time.is_some_and(|due| due > now);
            let (status, attempts) = match step.record.as_ref() {
                None => (ConsumeStatus::Waiting, 0),
                Some(record) => match record.status {
                    // An attempt of somebody else failed meanwhile: the sweep takes it when it is due.
                    ConsumeStatus::Failed if is_resting(record) => continue,
                    ConsumeStatus::Processing if counted.is_some_and(|counted| counted.is(&step)) => {
                        (ConsumeStatus::Waiting, record.attempts.saturating_sub(1))
                    }
                    status @ (ConsumeStatus::Waiting | ConsumeStatus::Failed) => (status, record.attempts),
                    ConsumeStatus::Processing | ConsumeStatus::Success | ConsumeStatus::Dead => continue,
                },
            };
            let next_retry_time = step.record.as_ref().and_then(|record| record.next_retry_time);
            let record = self.record(&step, status, attempts, now);
            // Moved: whoever was faster has it in the log.
            let (Written::Yes | Written::Moved) =
                self.write(Consumption { next_retry_time, ..record }, None).await?;
        }
        Ok(())
    }

    /// Writes one row of the log, and with a dead one its letter, if the log still holds what was read.
    pub(super) async fn write(
        &self,
        record: Consumption,
        letter: Option<DeadLetter>,
    ) -> Result<Written, StoreError> {
        let job = Arc::new((record, letter));
        let result = with_tx(&self.outbox.tx, move |unit, attempt| {
            let job = Arc::clone(&job);
            Box::pin(async move {
                let (record, letter) = job.as_ref();
                let there = unit.outbox().consumption(&record.consumer, &record.event_id).await?;
                let is_this = |there: &ConsumeRecord| {
                    (there.status, there.attempts, there.consume_time)
                        == (record.status, record.attempts, record.consume_time)
                };
                if attempt.may_have_happened() && there.as_ref().is_some_and(is_this) {
                    return Ok(());
                }
                let expected =
                    there.map_or(Expected::Absent, |there| Expected::At(there.status, there.attempts));
                if expected != record.expected {
                    return Err(InboxError::Moved);
                }
                unit.outbox().record(std::slice::from_ref(record)).await?;
                match letter {
                    Some(letter) => Ok(unit.outbox().park(std::slice::from_ref(letter)).await?),
                    None => Ok(()),
                }
            })
        })
        .await;
        match result {
            Ok(()) => Ok(Written::Yes),
            Err(InboxError::Moved | InboxError::Handler(_)) => Ok(Written::Moved),
            Err(InboxError::Store(error)) => Err(error),
        }
    }
}
/// Whether an unsettled earlier event has turned up since the plan was made.
fn is_overtaking(event: &OutboxRow, unapplied: &[Unapplied], unordered: &UnorderedTypes) -> bool {
    let place = (event.aggregate_seq, event.id);
    unordered.is_ordered(&event.event_type)
        && !planted(Mutant::NoGate)
        && unapplied.iter().any(|u| {
            unordered.is_ordered(&u.event.event_type)
                && (u.event.aggregate_seq, u.event.id) < place
                && u.event.status != OutboxStatus::Failed
        })
}

fn with_prefix(why: &str) -> String {
    if why.starts_with(texts::UNSUPPORTED_TYPE) {
        why.to_owned()
    } else {
        format!("{}: {why}", texts::CONSUME_FAILED)
    }
}
