//! The three steps of a replay, for a batch of dead letters.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, HistoryKind};
use tracing::warn;

use super::results::SentDeadLetter;
use crate::consumers::retry_record;
use crate::event_line::{EventFields, event_line};
use crate::history::{self, RedrivenBy};
use crate::message::outgoing_to;
use crate::operations::changed_by_earlier_attempt;
use crate::operations::dead_letter_selection::{Refused, UNDECIDED, already_decided};
use crate::outbox::Outbox;
use crate::ports::{
    AuditEntry, Changed, DeadLetterStatus, Decision, HistoryEntry, OutboxRow, OutboxUnit, PublishOutcome,
    StoreError,
};
use crate::transaction::{Attempt, with_tx};

/// Time limit for the confirms of a batch.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);

/// A dead letter that can be replayed.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    pub(super) queue: String,
    pub(super) key: String,
    pub(super) consumer: String,
    pub(super) event: OutboxRow,
    /// Reason and time of the death that the replay follows.
    pub(super) reason: String,
    pub(super) died_at: DateTime<Utc>,
}

impl Ready {
    fn decision(&self, from: &[DeadLetterStatus], to: DeadLetterStatus, at: DateTime<Utc>) -> Decision {
        let queue = self.queue.clone();
        let key = self.key.clone();
        Decision { queue, key, from: from.to_vec(), to, note: None, at }
    }

    fn sent(&self) -> SentDeadLetter {
        SentDeadLetter {
            queue: self.queue.clone(),
            consumer: self.consumer.clone(),
            event: self.event.event_id.clone(),
        }
    }

    /// History entries of the death, which the next one overwrites in the dead letter, and of the replay.
    fn history(&self, entry: &AuditEntry) -> [HistoryEntry; 2] {
        let death = HistoryEntry {
            tenant: self.event.aggregate.tenant,
            event_id: self.event.event_id.clone(),
            kind: HistoryKind::Failed,
            consumer: Some(self.consumer.clone()),
            attempts: 0,
            detail: Some(self.reason.clone()),
            at: self.died_at,
        };
        let by = RedrivenBy { actor: &entry.actor, reason: entry.reason.as_deref() };
        let replay = HistoryEntry {
            kind: HistoryKind::Redriven,
            detail: Some(by.to_string()),
            at: entry.at,
            ..death.clone()
        };
        [death, replay]
    }

    fn refused(&self, why: impl Into<String>) -> Refused {
        Refused { queue: self.queue.clone(), key: self.key.clone(), why: why.into() }
    }
}

/// Dead letters that are replayed together.
pub(super) struct Batch {
    pub(super) dead_letters: Vec<Ready>,
    pub(super) entry: AuditEntry,
}

#[derive(Default)]
pub(super) struct BatchOutcome {
    pub(super) sent: Vec<SentDeadLetter>,
    pub(super) refused: Vec<Refused>,
    /// The publish failed, or the broker did not confirm in time.
    pub(super) broker_unreachable: bool,
}

/// Result of the first step for one dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BeginOutcome {
    /// The event has to be published.
    Publish,
    /// The event was applied: nothing has to be published.
    Applied,
    /// Another call has decided about the dead letter, or the dead letter no longer exists. The text is the reason.
    Decided(&'static str),
}

impl Batch {
    /// An error means that nothing was published.
    pub(super) async fn run(self, outbox: &Outbox) -> Result<BatchOutcome, StoreError> {
        let batch = Arc::new(self);
        let outcomes = batch.begin(outbox).await?;
        let mut end = BatchOutcome::default();
        let mut to_publish = Vec::new();
        for (dead_letter, outcome) in batch.dead_letters.iter().zip(outcomes) {
            match outcome {
                BeginOutcome::Publish => to_publish.push(dead_letter),
                BeginOutcome::Applied => end.sent.push(dead_letter.sent()),
                BeginOutcome::Decided(why) => end.refused.push(dead_letter.refused(why)),
            }
        }
        let confirmed = publish(outbox, &to_publish, &mut end).await;
        finish(outbox, confirmed, &mut end).await;
        Ok(end)
    }

    async fn begin(self: &Arc<Self>, outbox: &Outbox) -> Result<Vec<BeginOutcome>, StoreError> {
        with_tx(&outbox.tx, Arc::clone(self), |unit, batch, attempt| {
            Box::pin(async move { batch.begin_in(unit.outbox(), attempt).await })
        })
        .await
    }

    async fn begin_in(
        &self,
        unit: &mut dyn OutboxUnit,
        attempt: Attempt,
    ) -> Result<Vec<BeginOutcome>, StoreError> {
        let at = self.entry.at;
        let earlier = changed_by_earlier_attempt(unit, attempt, &self.entry).await?;
        let mut outcomes = Vec::with_capacity(self.dead_letters.len());
        let mut records = Vec::new();
        let mut entries = Vec::new();
        let mut changed = 0;
        for dead_letter in &self.dead_letters {
            // Change the dead letter before reading the log: a worker that marks the event DEAD again writes both;
            // this unit of work either waits for that worker, or the worker reopens the dead letter afterwards.
            let note = self.entry.reason.clone();
            let decision =
                Decision { note, ..dead_letter.decision(&UNDECIDED, DeadLetterStatus::Replaying, at) };
            if unit.decide(&decision).await? == Changed::None {
                outcomes.push(decided_meanwhile(unit, dead_letter, at).await?);
                continue;
            }
            changed += 1;
            entries.extend(dead_letter.history(&self.entry));
            let record = unit.consumption(&dead_letter.consumer, &dead_letter.event.event_id).await?;
            let status = record.as_ref().map(|record| record.status);
            if status == Some(ConsumeStatus::Success) {
                let closing =
                    dead_letter.decision(&[DeadLetterStatus::Replaying], DeadLetterStatus::Replayed, at);
                let (Changed::One | Changed::None) = unit.decide(&closing).await?;
            }
            match status {
                Some(ConsumeStatus::Success) => outcomes.push(BeginOutcome::Applied),
                Some(ConsumeStatus::Dead) | None => {
                    records.push(retry_record(
                        &dead_letter.consumer,
                        &dead_letter.event,
                        record.as_ref(),
                        at,
                    ));
                    outcomes.push(BeginOutcome::Publish);
                }
                Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) => {
                    outcomes.push(BeginOutcome::Publish);
                }
            }
        }
        if !records.is_empty() {
            unit.record(&records).await?;
        }
        history::add(unit, attempt, entries).await?;
        if earlier.is_none() {
            unit.audit(&AuditEntry { changed, ..self.entry.clone() }).await?;
        }
        Ok(outcomes)
    }
}

/// The decision that was made before this unit of work, by another operator or an earlier attempt.
async fn decided_meanwhile(
    unit: &mut dyn OutboxUnit,
    dead_letter: &Ready,
    at: DateTime<Utc>,
) -> Result<BeginOutcome, StoreError> {
    let now = unit.dead_letter(&dead_letter.queue, &dead_letter.key).await?;
    Ok(match now {
        Some(now) if now.status == DeadLetterStatus::Replayed && now.decided_at == Some(at) => {
            BeginOutcome::Applied
        }
        Some(now) => BeginOutcome::Decided(
            already_decided(now.status)
                .unwrap_or("another operator is replaying or discarding the dead letter"),
        ),
        None => BeginOutcome::Decided("the dead letter no longer exists"),
    })
}

/// Publishes each event to its queue; returns those that the broker confirmed.
async fn publish<'a>(outbox: &Outbox, dead_letters: &[&'a Ready], end: &mut BatchOutcome) -> Vec<&'a Ready> {
    const NOT_CONFIRMED: &str = "the broker did not confirm the message; replay the dead letter again, or \
                                 wait: its consumer applies the event from the outbox";
    let mut window = Vec::with_capacity(dead_letters.len());
    let mut published = Vec::with_capacity(dead_letters.len());
    for dead_letter in dead_letters {
        match outgoing_to(&outbox.registry, &dead_letter.queue, &dead_letter.event) {
            Ok(outgoing) => {
                window.push(outgoing);
                published.push(*dead_letter);
            }
            Err(why) => {
                end.refused.push(dead_letter.refused(format!("the event cannot be published: {why}")));
            }
        }
    }
    if window.is_empty() {
        return Vec::new();
    }
    let outcomes = match tokio::time::timeout(CONFIRM_TIMEOUT, outbox.broker.publish(window)).await {
        Ok(Ok(outcomes)) => outcomes,
        Ok(Err(error)) => {
            warn!(code = "dead-letters.replay-failed", %error, "[DeadLetters] replay failed; it can be repeated");
            end.broker_unreachable = true;
            end.refused.extend(published.iter().map(|dead_letter| dead_letter.refused(NOT_CONFIRMED)));
            return Vec::new();
        }
        Err(_) => {
            warn!(
                code = "dead-letters.replay-timed-out",
                "[DeadLetters] replay not confirmed within {CONFIRM_TIMEOUT:?}; it can be repeated"
            );
            end.broker_unreachable = true;
            end.refused.extend(published.iter().map(|dead_letter| dead_letter.refused(NOT_CONFIRMED)));
            return Vec::new();
        }
    };
    let mut confirmed = Vec::with_capacity(published.len());
    for (dead_letter, outcome) in published.into_iter().zip(outcomes) {
        let (reason, why) = match outcome {
            PublishOutcome::Confirmed(_) => {
                confirmed.push(dead_letter);
                continue;
            }
            PublishOutcome::Returned { reason, .. } => {
                (reason, "the queue does not exist; replay again after its consumer has declared it")
            }
            PublishOutcome::Nacked { reason, .. } | PublishOutcome::Unknown { reason, .. } => {
                (reason, NOT_CONFIRMED)
            }
        };
        event_line!(
            WARN,
            EventFields::of(&outbox.registry, &dead_letter.event),
            code = "dead-letters.replay-not-confirmed",
            queue = dead_letter.queue,
            consumer = dead_letter.consumer,
            reason,
            "[DeadLetters] replay not confirmed by the broker; the dead letter stays REPLAYING, replay it again"
        );
        end.refused.push(dead_letter.refused(why));
    }
    confirmed
}

/// Closes the confirmed dead letters. A dead letter that was parked again after its publish stays open.
async fn finish(outbox: &Outbox, confirmed: Vec<&Ready>, end: &mut BatchOutcome) {
    if confirmed.is_empty() {
        return;
    }
    let (dead_letters, at): (Arc<Vec<Ready>>, _) =
        (Arc::new(confirmed.into_iter().cloned().collect()), outbox.now());
    let closed = with_tx(&outbox.tx, Arc::clone(&dead_letters), move |unit, dead_letters, _| {
        Box::pin(async move {
            let mut refusals = Vec::with_capacity(dead_letters.len());
            for dead_letter in dead_letters.iter() {
                refusals.push(close(unit.outbox(), dead_letter, at).await?);
            }
            Ok::<_, StoreError>(refusals)
        })
    })
    .await;
    let refusals = closed.unwrap_or_else(|error| {
        warn!(code = "dead-letters.replay-not-closed", %error, "[DeadLetters] {} replays were confirmed but their dead letters cannot be closed; replay them again", dead_letters.len());
        let why = "the event was sent to its consumer, but the dead letter could not be closed; replay it again \
                   to close it";
        dead_letters.iter().map(|_| Some(why.to_owned())).collect()
    });
    for (dead_letter, refusal) in dead_letters.iter().zip(refusals) {
        match refusal {
            None => {
                event_line!(
                    INFO,
                    EventFields::of(&outbox.registry, &dead_letter.event),
                    code = "dead-letters.replayed",
                    queue = dead_letter.queue,
                    consumer = dead_letter.consumer,
                    "[DeadLetters] dead letter replayed"
                );
                end.sent.push(dead_letter.sent());
            }
            Some(why) => end.refused.push(dead_letter.refused(why)),
        }
    }
}

/// Closes one dead letter. Returns the reason why it could not be closed; `None` if it was closed.
async fn close(
    unit: &mut dyn OutboxUnit,
    dead_letter: &Ready,
    at: DateTime<Utc>,
) -> Result<Option<String>, StoreError> {
    let decision = dead_letter.decision(&[DeadLetterStatus::Replaying], DeadLetterStatus::Replayed, at);
    if unit.decide(&decision).await? == Changed::One {
        return Ok(None);
    }
    let now = unit.dead_letter(&dead_letter.queue, &dead_letter.key).await?;
    Ok(match now.map(|now| (now.status, now.reason)) {
        // Another replay, or an earlier attempt at this unit of work, has closed the dead letter.
        Some((DeadLetterStatus::Replayed, _)) => None,
        Some((DeadLetterStatus::Open, reason)) => {
            Some(format!("the event was dead-lettered again: {reason}"))
        }
        Some((DeadLetterStatus::Replaying, _)) => {
            Some("another replay of the dead letter is in progress".to_owned())
        }
        Some((DeadLetterStatus::Discarded, _)) => {
            Some("the dead letter was discarded during its replay".to_owned())
        }
        None => Some("the dead letter no longer exists".to_owned()),
    })
}
