//! One event at a time: the careful way, on which attempts are counted, backoffs waited for and the dead parked.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_domain::{ConsumeStatus, EventId, FailureKind, OutboxStatus, Retry};
use tracing::{error, info, warn};

use super::HandlerError;
use super::gate::{Verdict, plan};
use super::inbox::{Inbox, InboxError};
use crate::ports::{ConsumeRecord, Consumption, DeadLetter, Expected, OutboxRow, StoreError, Unapplied};
use crate::{texts, with_tx};

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
    /// It was delivered before, or nobody knows: it may be what kills the process.
    Yes,
    /// A first delivery.
    No,
}

/// An attempt that was counted before it ran: the caller's own for as long as the log still says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    event: EventId,
    attempts: u32,
}

impl Counted {
    fn is(&self, step: &Unapplied) -> bool {
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
            let (mut list, now) = (self.around(event).await?, self.app.now());
            let Some(target) = list.iter().find(|u| u.event.event_id == *event) else {
                // Gone from the outbox between two looks: archived, so applied.
                return Ok(AloneEnd::Done);
            };
            let end = match target.record.as_ref().map(|record| record.status) {
                Some(ConsumeStatus::Success) => Some(AloneEnd::Done),
                Some(ConsumeStatus::Dead) => Some(AloneEnd::Dead),
                Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) | None => {
                    None
                }
            };
            if end == Some(AloneEnd::Done) && !worked {
                info!(eventId = %event, traceId = target.event.trace_id(), queue = self.queue,
                    consumer = self.name(), "{}", texts::DUPLICATE);
            }
            worked = true;
            let takes = self.handler.takes().iter().any(|taken| taken.as_str() == target.event.event_type);
            if end.is_none() && !takes {
                let why = format!("{}: {}", texts::UNSUPPORTED_TYPE, target.event.event_type);
                self.fail(target, FailureKind::Unrecoverable, &why, now).await?;
                continue;
            }
            let targets: BTreeSet<EventId> = end.is_none().then(|| event.clone()).into_iter().collect();
            // Once the target is settled, what waits for it is next.
            list.retain(|u| end.is_none() || u.event.event_id != *event);
            let mine = counted.as_ref().filter(|counted| list.iter().any(|u| counted.is(u)));
            let steps = plan(&list, &targets, mine.map(|counted| &counted.event), now);
            let Some(step) = steps.first() else { return Ok(end.unwrap_or(AloneEnd::Done)) };
            match step.verdict {
                Verdict::Busy(until) => return Ok(AloneEnd::Busy(until)),
                Verdict::Wait => {
                    if step.event.record.is_none() {
                        let waiting = self.record(step.event, ConsumeStatus::Waiting, 0, now);
                        if self.write(waiting, None).await? == Written::Moved {
                            continue;
                        }
                    }
                    return Ok(AloneEnd::Done);
                }
                Verdict::Apply => {
                    let is_target = step.event.event.event_id == *event;
                    let count = if is_target { count } else { CountFirst::No };
                    let failed = self.take_step(step.event, count, counted, now).await?;
                    if is_target && let Some(AloneEnd::Failed(due)) = failed {
                        return Ok(AloneEnd::Failed(due));
                    }
                }
            }
        }
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
            Attempted::Failed(kind, why) => self.fail(step, kind, &why, self.app.now()).await,
        }
    }

    /// The unsettled events of the target's aggregate in order, the target among them whatever its state.
    async fn around(&self, event: &EventId) -> Result<Vec<Unapplied>, StoreError> {
        let mut view = self.app.view().await?;
        let Some(target) = self.target(view.as_mut(), event).await? else { return Ok(Vec::new()) };
        let mut list = self.unapplied(view.as_mut(), std::slice::from_ref(&target.event.aggregate)).await?;
        match list.iter_mut().find(|u| u.event.event_id == *event) {
            Some(same) => *same = target,
            None => {
                list.push(target);
                list.sort_by_key(|u| (u.event.aggregate_seq, u.event.id));
            }
        }
        Ok(list)
    }

    /// Runs one attempt in its unit. What was read before is asked for again by the log's conditional write, and the
    /// gate once more inside the unit.
    async fn attempt(&self, step: &Unapplied) -> Result<Attempted, StoreError> {
        let (inbox, wanted) = (self.clone(), Arc::new(step.clone()));
        let result = with_tx(&self.app.tx, move |unit, _| {
            let (inbox, wanted) = (inbox.clone(), Arc::clone(&wanted));
            Box::pin(async move {
                let earlier = inbox.unapplied(unit, std::slice::from_ref(&wanted.event.aggregate)).await?;
                let same = |u: &&Unapplied| u.event.event_id == wanted.event.event_id;
                let moved = earlier.iter().find(same).is_some_and(|now| now.record != wanted.record);
                if moved || is_overtaking(&wanted.event, &earlier) {
                    return Err(InboxError::Moved);
                }
                inbox.apply(unit, &[&wanted]).await
            })
        })
        .await;
        match result {
            Ok(()) => {
                info!(eventId = %step.event.event_id, eventType = %step.event.event_type,
                    traceId = step.event.trace_id(), aggregateId = step.event.aggregate.id, queue = self.queue,
                    consumer = self.name(), "[{}] Message consumed successfully", self.name());
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
    async fn count(&self, step: &Unapplied, now: DateTime<Utc>) -> Result<Option<Counted>, StoreError> {
        let attempts = step.record.as_ref().map_or(0, |record| record.attempts).saturating_add(1);
        let lease = TimeDelta::from_std(self.settings.lease).unwrap_or_default();
        let record = self.record(step, ConsumeStatus::Processing, attempts, now);
        let written = self.write(Consumption { lease_until: Some(now + lease), ..record }, None).await?;
        let counted = Counted { event: step.event.event_id.clone(), attempts };
        Ok((written == Written::Yes).then_some(counted))
    }

    /// Whether every attempt it has was counted and none ended.
    fn is_spent(&self, step: &Unapplied) -> bool {
        step.record.as_ref().is_some_and(|record| {
            record.status == ConsumeStatus::Processing && record.attempts >= self.settings.retry.attempts()
        })
    }

    /// Writes a failed attempt down in its own unit: FAILED with the next attempt's time, or DEAD with a dead letter.
    /// `None`: somebody else settled it meanwhile.
    async fn fail(
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
        let retry = match kind {
            FailureKind::Unrecoverable => Retry::GiveUp,
            FailureKind::Recoverable => self
                .settings
                .retry
                .after(NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN), self.app.tx.chance.next()),
        };
        let message = with_prefix(why);
        let (status, due, end) = match retry {
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
        let letter = (status == ConsumeStatus::Dead).then(|| self.dead_letter(&step.event, &message, now));
        let (event, trace) = (&step.event.event_id, step.event.trace_id());
        match letter {
            Some(_) => {
                error!(eventId = %event, traceId = trace, queue = self.queue, consumer = self.name(), attempts,
                error = %message, "[{}] [ALERT] Event is dead", self.name())
            }
            None => {
                warn!(eventId = %event, traceId = trace, queue = self.queue, consumer = self.name(), attempts,
                error = %message, "[{}] an attempt failed", self.name())
            }
        }
        let written = self.write(record, letter).await?;
        Ok(match written {
            Written::Yes => Some(end),
            Written::Moved => None,
        })
    }

    /// Writes one row of the log, and with a dead one its letter, if the log still holds what was read.
    async fn write(&self, record: Consumption, letter: Option<DeadLetter>) -> Result<Written, StoreError> {
        let job = Arc::new((record, letter));
        let result = with_tx(&self.app.tx, move |unit, attempt| {
            let job = Arc::clone(&job);
            Box::pin(async move {
                let (record, letter) = job.as_ref();
                let there = unit.consumption(&record.consumer, &record.event_id).await?;
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
                unit.record(std::slice::from_ref(record)).await?;
                match letter {
                    Some(letter) => Ok(unit.park(std::slice::from_ref(letter)).await?),
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

/// What became of one attempt.
enum Attempted {
    Applied,
    /// Somebody else was faster: look again.
    Moved,
    Failed(FailureKind, String),
}

/// What became of a write to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    /// The log no longer holds what was read.
    Moved,
}

fn is_processing(step: &Unapplied) -> bool {
    step.record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Processing)
}

/// Whether an unsettled earlier event has turned up since the plan was made.
fn is_overtaking(event: &OutboxRow, unapplied: &[Unapplied]) -> bool {
    let place = (event.aggregate_seq, event.id);
    let is_ordered =
        |row: &OutboxRow| row.event_type.parse().map_or(true, handover_domain::EventType::is_ordered);
    is_ordered(event)
        && unapplied.iter().any(|u| {
            is_ordered(&u.event)
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
